"""Ask the network of a run again, for the detectors that need it; answers and refusals are kept."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from oodometer.engine.work.codecs import REFUSED, array_to_text, text_to_array
from oodometer.errors import UserError, unknown
from oodometer.lab.asking.extract import extract
from oodometer.lab.asking.probes import PROBES
from oodometer.lab.asking.votes import summarize_votes
from oodometer.needs import ENSEMBLE, LAYERS, Need
from oodometer.outputs import Outputs

if TYPE_CHECKING:
    from oodometer.engine.work.steps import Bench

_PASSING = ("MemoryError", "allocate", "out of memory", "OSError")  # other than the network's fault


class Probing:
    """What detectors of one run read beyond plain outputs."""

    def __init__(self, bench: Bench) -> None:
        self._bench, self._run = bench, bench.run
        self._arrays: dict[str, dict[str, NDArray[Any]]] = {}  # key -> what was just made
        self._failures: dict[str, str] = {}  # key -> what may go well the next time
        self._outputs: dict[tuple[str, tuple[Need, ...]], Outputs] = {}

    def prepare(self, labels: Iterable[str]) -> None:
        """Make what these detectors need of the network and the store lacks."""
        needs = {need for label in labels for need in self._run.needs.get(label, ())}
        store, probes = self._bench.store, self._run.probes
        lacking = {
            need: [name for name, key in probes[need].items() if not store.has("probes", key)]
            for need in sorted(needs)
            if need in probes and not self._run.made_of_others(need)
        }
        self._make({need: names for need, names in lacking.items() if names})

    def outputs(self, name: str, label: str) -> Outputs:
        """Outputs on a data set ("" = what is fitted to) with all that a detector needs of them."""
        plain = self._bench.outputs(name)
        needs = self._run.needs.get(label, ())
        if not needs:
            return plain
        if (name, needs) not in self._outputs:
            layers: dict[str, Tensor] = {}
            probes: dict[str, Tensor] = {}
            refused: dict[str, str] = {}
            answers: dict[Need, Tensor] = {}
            for need in needs:
                found = self._answer(need, name)
                if REFUSED in found:
                    refused[str(need)] = array_to_text(found[REFUSED])
                elif need == LAYERS:
                    # The number before the name keeps the order of the stages.
                    layers = {k.partition(" ")[2]: torch.from_numpy(v) for k, v in found.items()}
                elif found and need.of_classifier:
                    probes[need.name] = torch.from_numpy(found["values"])
                elif found:
                    answers[need] = torch.from_numpy(found["values"])
            self._outputs[name, needs] = replace(
                plain, layers=layers, probes=probes, refused=refused, answers=answers
            )
        return self._outputs[name, needs]

    def _answer(self, need: Need, name: str) -> Mapping[str, NDArray[Any]]:
        """Values, or why there are none, from memory, the store or the network."""
        if need not in self._run.probes:
            raise unknown("probe", need.name, PROBES)
        key = self._run.probes[need].get(name)
        if key is None:  # nobody reads it of the training set
            return {}
        if key not in self._arrays:
            arrays = self._bench.load("probes", key)
            if arrays is None:
                self._make({need: [name]})
            else:
                self._arrays[key] = arrays
        if key not in self._arrays:
            raise UserError(self._failures[key])
        return self._arrays[key]

    def make(self, keys: Iterable[str]) -> None:
        """Make probes anew, given by their keys."""
        wanted = set(keys)
        self._make(
            {
                need: names
                for need, by_name in self._run.probes.items()
                if (names := [name for name, key in by_name.items() if key in wanted])
            }
        )

    def _make(self, wanted: Mapping[Need, Sequence[str]]) -> None:
        """Ask for each need about the data sets; as far as possible, in one pass over each."""
        own = {n: names for n, names in wanted.items() if not self._run.made_of_others(n)}
        for need, names in wanted.items():
            for name in () if need in own else names:
                started = time.monotonic()
                made = self._votes(name) if need == ENSEMBLE else self._odds(need, name)
                self._save(need, name, made, started)
        alone = self._ask(own)
        # What is refused on one data set is not asked of those behind it: each for itself, then.
        for name, needs in alone.items():
            self._ask({need: [name] for need in needs})

    def _ask(self, wanted: Mapping[Need, Sequence[str]]) -> dict[str, list[Need]]:
        """Keep what the network says; return, by data set, needs that were not asked of it."""
        if not wanted:
            return {}
        started = time.monotonic()
        learning = [n for n in wanted if n != LAYERS and PROBES[n.name].learner]
        everywhere = {name for names in wanted.values() for name in names}
        ordered = [name for name in ("", *self._run.outputs) if name in everywhere | {""}]
        if not learning and "" not in everywhere:
            ordered.remove("")
        fitted = self._run.fitted
        sets = {name or fitted: self._bench.samples(name).batches() for name in ordered}
        made = extract(
            self._bench.model(), sets, needs=[*map(str, wanted)], train=fitted, lenient=True
        )
        by_name = {name: made[name or fitted] for name in ordered}
        unasked: dict[str, list[Need]] = {}
        for need, names in wanted.items():
            first = next((name for name in ordered if str(need) in by_name[name].refused), None)
            for name in names:
                later = first is not None and ordered.index(name) > ordered.index(first)
                if first and later:  # refused on the training set, it is refused on all
                    unasked.setdefault(name, []).append(need)
                else:
                    self._save(need, name, _arrays(need, by_name[name]), started)
        self._bench.spent("extract", started)
        return unasked

    def _votes(self, name: str) -> dict[str, NDArray[Any]]:
        """What all runs of the group say together about a data set."""
        members = {member.outputs[name]: member for member in self._run.ensemble}
        if len(members) < 2:
            sentence = "an ensemble needs runs that differ in the seed only, and this has no other."
            return {REFUSED: text_to_array(sentence)}
        # In the order of their keys, so that every run of the group makes the same bytes.
        outputs = [self._bench.outputs_of(members[key], name) for key in sorted(members)]
        logits = [part.logits for part in outputs if part.logits is not None]
        votes = summarize_votes(torch.stack(logits)).to(logits[0].dtype)
        return {"values": votes.numpy()}

    def _odds(self, need: Need, name: str) -> dict[str, NDArray[Any]]:
        """Log odds of being outliers, by the network that was trained to tell these."""
        logits = self._bench.outputs_of(self._run.rivals[need], name).logits
        assert logits is not None and logits.shape[1] == 2
        return {"values": (logits[:, 1] - logits[:, 0]).numpy()}

    def _save(self, need: Need, name: str, arrays: dict[str, NDArray[Any]], started: float) -> None:
        key = self._run.probes[need][name]
        if REFUSED in arrays:
            sentence = array_to_text(arrays[REFUSED])
            if any(word in sentence for word in _PASSING):
                self._failures[key] = sentence
                return
        parents = [self._run.model]
        if need == ENSEMBLE:
            parents = [member.outputs[name] for member in self._run.ensemble]
        elif need in self._run.rivals:
            parents = [self._run.rivals[need].outputs[name]]
        about = {"probe": str(need), "data set": name or self._run.fitted, "parents": parents}
        self._bench.save("probes", key, arrays, about, started)
        self._arrays[key] = arrays


def _arrays(need: Need, made: Outputs) -> dict[str, NDArray[Any]]:
    """What was asked for, as it is kept."""
    if str(need) in made.refused:
        return {REFUSED: text_to_array(made.refused[str(need)])}
    if need == LAYERS:
        return {f"{i:03d} {k}": v.numpy() for i, (k, v) in enumerate(made.layers.items())}
    return {"values": made.probes[need.name].numpy()}
