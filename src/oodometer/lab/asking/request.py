"""What is asked of a classifier beside logits, features, labels and head."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

from oodometer.errors import UserError, describe, unknown
from oodometer.lab.asking.probes import PROBES, Probe, State
from oodometer.needs import ENSEMBLE, LAYERS, PLAIN, Need, parse_needs
from oodometer.outputs import Refusal

Needs = Literal["all"] | Iterable[str]


class Request:
    """The layers and probes that are wanted, and why some of them cannot be given.

    With `lenient`, whatever the model or the data do not allow is noted in `refused`; otherwise it
    is an error.
    """

    def __init__(self, layers: bool, probes: Iterable[str], *, lenient: bool) -> None:
        self.layers, self.lenient = layers, lenient
        self.probes: dict[str, Probe] = {name: PROBES[name] for name in probes}
        self.states: dict[str, State] = {}  # what probes learned from the training set
        self.refused: dict[str, Refusal] = {}  # need -> why it is not given

    @classmethod
    def parse(cls, needs: Needs, *, lenient: bool) -> Request:
        """Read the needs of `extract`; unknown names are refused before anything runs."""
        if needs == "all":
            usual = sorted(name for name, probe in PROBES.items() if not probe.only_by_name)
            return cls(layers=True, probes=usual, lenient=True)
        wanted = parse_needs([needs] if isinstance(needs, str) else needs)
        for need in sorted(wanted):
            _require_answerable(need)
        probes = sorted(need.name for need in wanted if need.source == "probe")
        return cls(LAYERS in wanted, probes, lenient=lenient)

    @property
    def wants(self) -> frozenset[str]:
        """What the probes want of the plain forward pass: "graph", "stages", "prefix"."""
        return frozenset(want for probe in self.probes.values() for want in probe.wants)

    @property
    def stages(self) -> bool:
        """Whether the outputs of stages must be kept."""
        return self.layers or "stages" in self.wants

    def learning(self) -> dict[str, Probe]:
        """The probes that learn from the training set."""
        return {name: probe for name, probe in self.probes.items() if probe.learner is not None}

    def refuse(self, probe: str, problem: UserError) -> None:
        """Continue without a probe, if the request is lenient."""
        if not self.lenient:
            raise problem
        self.refused[str(Need("probe", probe))] = Refusal.of(problem)
        del self.probes[probe]

    def refuse_training(self, train: str) -> None:
        """Continue without the probes that learn: there is no training set."""
        for name in self.learning():
            sentence = (
                f"Probe '{name}' learns from the training set, but there is no data set '{train}'."
            )
            self.refuse(name, UserError(sentence))

    def refuse_head(self, problem: UserError) -> None:
        """Continue with logits alone, and with the probes that read no more than these."""
        self.refused |= dict.fromkeys(("features", "head"), Refusal.of(problem))
        for name in [name for name, probe in self.probes.items() if probe.needs_head]:
            self.refuse(name, problem)

    def refuse_layers(self, problem: UserError) -> None:
        """Continue without layers and without the probes that read them."""
        if not self.lenient:
            raise problem
        self.layers, self.refused["layers"] = False, Refusal.of(problem)
        for name in [name for name, probe in self.probes.items() if "stages" in probe.wants]:
            self.refuse(name, problem)

    def refuse_all(self, problem: UserError) -> None:
        """Continue with one plain pass: the model does not support forward hooks."""
        if self.layers:
            self.refuse_layers(problem)
        for name in list(self.probes):
            self.refuse(name, problem)

    @contextmanager
    def blaming(self, probe: str, dataset: str) -> Iterator[None]:
        """Attribute any error to this probe in one sentence, and let the others continue."""
        try:
            yield
        except UserError as problem:
            self.refuse(probe, problem)
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - a user's network
            blamed = UserError(
                f"Probe '{probe}' failed on data set '{dataset}': {describe(problem)}"
            )
            blamed.__cause__ = problem
            self.refuse(probe, blamed)

    def asked_of(self, *, training: bool) -> Mapping[str, Probe]:
        """The probes whose values are read on the training set, or on any other."""
        return {
            name: probe
            for name, probe in self.probes.items()
            if not training or (probe.of_training and probe.learner is None)
        }


def _require_answerable(need: Need) -> None:
    """Refuse what a single model cannot answer."""
    if need == ENSEMBLE:
        raise UserError(
            f"'{need}' is made of the answers of several training runs, not of one model: make it "
            "with oodometer.lab.asking.votes.summarize_votes."
        )
    if not need.of_classifier:
        raise UserError(f"'{need}' is not asked of a classifier: it is for 'oodometer run'.")
    if need.source == "probe" and need.name not in PROBES:
        probes = [str(Need("probe", name)) for name in PROBES]
        raise unknown("need", str(need), [*PLAIN, "layers", *probes, "all"])
