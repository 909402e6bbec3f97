"""Ask the network of a run: outputs, and what detectors need beyond; refusals are kept, too."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from oodometer.engine.stores import StoreError
from oodometer.engine.work.codecs import REFUSED, array_to_text, text_to_array
from oodometer.engine.work.network import NetworkFailedError
from oodometer.errors import UserError
from oodometer.lab.asking.extract import extract, stem_relu_skipped
from oodometer.lab.asking.probes import PROBES
from oodometer.lab.asking.steadiness import unsteadiness
from oodometer.lab.asking.votes import summarize_votes
from oodometer.needs import ENSEMBLE, LAYERS, Need
from oodometer.outputs import Head, Outputs, Refusal

if TYPE_CHECKING:
    from oodometer.engine.work.worker import RunWorker


_NOT_OF_TRAINING = Refusal(
    "it is asked about the training data only if its card has of_training=True"
)


class Asker:
    """What the network of one run says: from memory, the store or the network."""

    def __init__(self, worker: RunWorker) -> None:
        self._worker, self._run = worker, worker.run
        self._plain: dict[str, Outputs] = {}
        self._arrays: dict[str, dict[str, NDArray[Any]]] = {}  # key -> what was just made
        self._failures: dict[str, str] = {}  # key -> what may go well the next time
        self._joined: dict[tuple[str, tuple[Need, ...]], Outputs] = {}

    def outputs(self, name: str, detector: str = "") -> Outputs:
        """Outputs on a data set ("" = what is fitted to) with all that a detector needs of them."""
        if name not in self._plain:
            self._plain[name] = self._load_plain(name) or self._make_plain(name)
        needs = self._run.needs.get(detector, ())
        if not needs:
            return self._plain[name]
        if (name, needs) not in self._joined:
            self._joined[name, needs] = self._join(name, needs)
        return self._joined[name, needs]

    def prepare(self, keys: Iterable[str]) -> None:
        """Make outputs and probes, given by their keys, while the network is here.

        A probe that cannot be made is left to the detectors that need it: they say why.
        """
        outputs, probes = self._wanted(keys)
        self._try(probes, outputs)
        for name in outputs:
            if name not in self._plain:
                self._plain[name] = self._make_plain(name)

    def prepare_for(self, detector: str) -> None:
        """Make what other networks say to a detector, where the store lacks it."""
        run, store = self._run, self._worker.store
        needs = [need for need in run.needs.get(detector, ()) if not need.of_classifier]
        keys = [key for need in needs for key in run.probes[need].values()]
        self._try(self._wanted(key for key in keys if not store.has("probes", key))[1])

    def make(self, keys: Iterable[str]) -> None:
        """Make outputs and probes, given by their keys."""
        outputs, probes = self._wanted(keys)
        for name in outputs:
            self._plain[name] = self._make_plain(name)
        self._make(probes)

    def _wanted(self, keys: Iterable[str]) -> tuple[list[str], dict[Need, list[str]]]:
        """Data sets whose outputs, and those whose probes by need, have these keys."""
        wanted = set(keys)
        outputs = [name for name, key in self._run.output_keys.items() if key in wanted]
        probes = {
            need: [name for name, key in by_name.items() if key in wanted]
            for need, by_name in self._run.probes.items()
        }
        return outputs, {need: names for need, names in probes.items() if names}

    def _try(self, probes: Mapping[Need, Sequence[str]], plain: Sequence[str] = ()) -> None:
        try:
            self._make(probes, plain)
        except StoreError:
            raise
        except Exception:  # noqa: BLE001 - detectors ask for it themselves, and say what happens
            pass

    def _load_plain(self, name: str) -> Outputs | None:
        arrays = self._worker.load("outputs", self._run.output_keys[name])
        if arrays is None:
            return None
        tensors = {key: torch.from_numpy(value) for key, value in arrays.items()}
        head = Head(tensors["weight"], tensors["bias"]) if "weight" in tensors else None
        return Outputs(tensors["logits"], tensors.get("features"), tensors["labels"], head)

    def _make_plain(self, name: str) -> Outputs:
        samples, model = self._worker.samples(name), self._worker.model()
        started = time.monotonic()
        made = extract(model, {name: samples.batches()})[name]
        if self._run.spec.features == "skip_stem_relu":
            with stem_relu_skipped(model):
                other = extract(model, {name: samples.batches()})[name]
            # These features do not give these logits, so there is no head that joins them.
            made = Outputs(made.logits, other.features, made.labels)
        self._save_plain(name, made, started)
        self._worker.spent("extract", started)
        return made

    def _save_plain(self, name: str, made: Outputs, started: float) -> None:
        arrays = {key.removeprefix("head."): value.numpy() for key, value in made.tensors().items()}
        artefact = self._worker.artefact("outputs", self._run.output_keys[name])
        about = {}
        if name == self._run.content.id:
            samples = self._worker.samples(name)
            about["unsteady"] = unsteadiness(self._worker.model(), samples.batches())
        self._worker.save(artefact, arrays, started, **about)

    def _join(self, name: str, needs: tuple[Need, ...]) -> Outputs:
        """Plain outputs with the answers to needs, or why there are none."""
        layers: dict[str, Tensor] = {}
        probes: dict[str, Tensor] = {}
        refused: dict[str, Refusal] = {}
        answers: dict[Need, Tensor] = {}
        failed: dict[Need, tuple[str, ...]] = {}  # model -> its label
        for need in needs:
            try:
                arrays = self._answer(need, name)
            except NetworkFailedError as problem:
                if need.source != "model":
                    raise
                failed[need] = problem.labels
                continue
            if REFUSED in arrays:
                refused[str(need)] = Refusal(array_to_text(arrays[REFUSED]))
            elif need == LAYERS:
                # The number before the name keeps the order of the stages.
                layers = {k.partition(" ")[2]: torch.from_numpy(v) for k, v in arrays.items()}
            elif arrays and need.of_classifier:
                probes[need.name] = torch.from_numpy(arrays["values"])
            elif arrays:
                answers[need] = torch.from_numpy(arrays["values"])
            elif need.source == "model":
                refused[str(Need("model", need.name))] = _NOT_OF_TRAINING
        # The settings of a detector that read other models can be scored.
        for model in {need.name for need in failed}:
            labels = [label for need in failed if need.name == model for label in failed[need]]
            reason = str(NetworkFailedError(*labels))
            refused[str(Need("model", model))] = Refusal(reason, lasting=False)
        # An ensemble without one of its members is another one.
        lost = {replace(need, member=0) for need in failed}
        answers = {need: a for need, a in answers.items() if replace(need, member=0) not in lost}
        plain = self._plain[name]
        return replace(plain, layers=layers, probes=probes, refused=refused, answers=answers)

    def _answer(self, need: Need, name: str) -> Mapping[str, NDArray[Any]]:
        """Values, or why there are none, from memory, the store or the network."""
        key = self._run.probes[need].get(name)
        if key is None:  # nobody reads it of the training set
            return {}
        if key not in self._arrays:
            arrays = self._worker.load("probes", key)
            if arrays is None:
                self._make({need: [name]})
            else:
                self._arrays[key] = arrays
        if key not in self._arrays:
            raise UserError(self._failures[key])
        return self._arrays[key]

    def _make(self, wanted: Mapping[Need, Sequence[str]], plain: Sequence[str] = ()) -> None:
        """Ask for each need about the data sets; as far as possible, in one pass over each.

        Plain outputs on the data sets `plain` are kept from the same passes, where these give the
        bytes that a plain pass gives.
        """
        own = {need: names for need, names in wanted.items() if need.of_classifier}
        for need, names in wanted.items():
            for name in () if need in own else names:
                self._hear(need, name)
        alone = self._ask(own, plain)
        # What is refused on one data set is not asked of those behind it: each for itself, then.
        for name, needs in alone.items():
            self._ask({need: [name] for need in needs})

    def _ask(
        self, wanted: Mapping[Need, Sequence[str]], plain: Sequence[str] = ()
    ) -> dict[str, list[Need]]:
        """Keep what the network says; return, by data set, needs that were not asked of it."""
        if not wanted:
            return {}
        started = time.monotonic()
        answers = self._pass(wanted)
        if self._run.spec.features == "forward":
            self._keep_plain({name: answers[name] for name in plain if name in answers}, started)
        unasked: dict[str, list[Need]] = {}
        for need, names in wanted.items():
            behind = _behind_refusal(need, answers)
            for name in names:
                if name in behind:
                    unasked.setdefault(name, []).append(need)
                else:
                    self._keep(need, name, answers[name], started)
        self._worker.spent("extract", started)
        return unasked

    def _pass(self, wanted: Mapping[Need, Sequence[str]]) -> dict[str, Outputs]:
        """Ask for all needs in one pass over each data set that one of them is wanted of."""
        asked = {name for names in wanted.values() for name in names}
        if any(need != LAYERS and PROBES[need.name].learner for need in wanted):
            asked.add("")
        fitted = self._run.fitted
        titles = {name: name or fitted for name in ("", *self._run.outputs) if name in asked}
        sets = {title: self._worker.samples(name).batches() for name, title in titles.items()}
        needs = [*map(str, wanted)]
        made = extract(self._worker.model(), sets, needs=needs, train=fitted, lenient=True)
        return {name: made[title] for name, title in titles.items()}

    def _keep_plain(self, answers: Mapping[str, Outputs], started: float) -> None:
        """Keep plain outputs out of answers; a plain pass says why a network has no head."""
        for name, both in answers.items():
            if "head" not in both.refused:
                plain = Outputs(both.logits, both.features, both.labels, both.head)
                self._save_plain(name, plain, started)
                self._plain[name] = plain

    def _keep(self, need: Need, name: str, answer: Outputs, started: float) -> None:
        """Keep the answer to a need, or why there is none, unless the next attempt may succeed."""
        refusal = answer.refused.get(str(need))
        if refusal is not None and not refusal.lasting:
            self._failures[self._run.probes[need][name]] = refusal.reason
        else:
            self._save(need, name, _arrays(need, answer), started)

    def _hear(self, need: Need, name: str) -> None:
        """Keep what other networks say about a data set."""
        started = time.monotonic()
        if need == ENSEMBLE:
            self._save(need, name, self._votes(name), started)
        else:
            answers = self._worker.answers_of(self._run.models[need], name)
            self._arrays[self._run.probes[need][name]] = dict(answers)

    def _votes(self, name: str) -> dict[str, NDArray[Any]]:
        """What all runs of the group say together about a data set."""
        members = {member.outputs[name]: member for member in self._run.ensemble}
        if len(members) < 2:
            sentence = "an ensemble needs runs that differ in the seed only, and this has no other."
            return {REFUSED: text_to_array(sentence)}
        # In the order of their keys, so that every run of the group makes the same bytes.
        outputs = [self._worker.outputs_of(members[key], name) for key in sorted(members)]
        logits = [part.logits for part in outputs if part.logits is not None]
        votes = summarize_votes(torch.stack(logits)).to(logits[0].dtype)
        return {"values": votes.numpy()}

    def _save(self, need: Need, name: str, arrays: dict[str, NDArray[Any]], started: float) -> None:
        key = self._run.probes[need][name]
        self._worker.save(self._worker.artefact("probes", key), arrays, started)
        self._arrays[key] = arrays


def _behind_refusal(need: Need, answers: Mapping[str, Outputs]) -> list[str]:
    """Data sets that were not asked because one before them refused.

    What the training set, which comes first, refuses is refused on all.
    """
    names = list(answers)
    first = next((name for name in names if str(need) in answers[name].refused), "")
    return names[names.index(first) + 1 :] if first else []


def _arrays(need: Need, made: Outputs) -> dict[str, NDArray[Any]]:
    """What was asked for, as it is kept."""
    if str(need) in made.refused:
        return {REFUSED: text_to_array(made.refused[str(need)].reason)}
    if need == LAYERS:
        return {f"{i:03d} {k}": v.numpy() for i, (k, v) in enumerate(made.layers.items())}
    return {"values": made.probes[need.name].numpy()}
