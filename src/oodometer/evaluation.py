"""Evaluate a classifier, or its saved outputs: score detectors and conclude which is best."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from oodometer.comparison import Evaluation, conclude
from oodometer.detector_families import family_of
from oodometer.errors import UserError, unknown
from oodometer.files import real_path
from oodometer.fitted.answers import answers_for
from oodometer.fitted.images import Pictures
from oodometer.lab.asking.extract import extract
from oodometer.lab.asking.models import load_model
from oodometer.lab.asking.steadiness import unsteadiness
from oodometer.lab.asking.votes import summarize_votes
from oodometer.lab.data.inputs import Data
from oodometer.lab.data.own_data import OwnData, load_own_data
from oodometer.needs import ENSEMBLE, Need
from oodometer.outputs import Outputs, Refusal
from oodometer.overlap import SHARED, shared_rows
from oodometer.protocols.common.learned import is_above_chance
from oodometer.protocols.common.steadiness import unsteady_caveats
from oodometer.registry import Choice
from oodometer.saved import load_outputs
from oodometer.scores import Missing, ScoreTable, join_runs
from oodometer.scoring import choices, needs_of, right_and_chance, score

Detectors = Literal["all"] | str | Sequence[str]
PathLike = str | os.PathLike[str]
Models = str | nn.Module | Sequence[nn.Module] | Mapping[str, nn.Module]


def evaluate(
    model: Models | None,
    train: str | Data,
    id: str | Data,
    ood: str | Sequence[str] | Mapping[str, str | Data],
    *,
    weights: PathLike | Sequence[PathLike] = (),
    detectors: Detectors = "all",
    ours: str = "",
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    head: str | None = None,
    auxiliary: Pictures | None = None,
    size: str = "small",
    seed: int = 0,
    device: torch.device | str | None = None,
    memory: int | None = None,
    notify: Callable[[str], None] | None = None,
) -> Evaluation:
    """Score a trained classifier with every detector and compare the detectors.

    `model` is a torch.nn.Module, several of them, or ``package.module:factory``, for which
    `weights` names checkpoint files; several models or checkpoints count as one run each. `train`
    is what the classifier was trained on, `id` held-out in-distribution data, and `ood` maps names
    to outlier sets. Each is an array, a pair (inputs, labels), a data set or a loader, which go to
    the model as they are, or the name or path of images, normalized by `mean` and `std`. `ours`
    names the detector whose comparisons are declared in advance. `memory` limits the bytes that a
    detector may hold on top of the outputs; `head` and `device` are those of `extract`. Notes are
    kept in ``Evaluation.notes`` and passed to `notify` as they occur.

    Detectors with networks of their own, such as "pixelcnn", are trained on `train`; `auxiliary`,
    `size` and `seed` are those of `fit_detector`. If there are no others, `model` may be None.
    """
    chosen = _comparable(detectors, ours)
    notes = _Notes(notify)
    data = load_own_data(train, id, ood, mean, std)
    if model is None:
        require_no_classifier(chosen)
    place = "cpu" if device is None else str(device)
    trained = answers_for(
        chosen, data.sets, auxiliary=auxiliary, size=size, seed=seed, device=place,
        notify=notes.progress,
    )  # fmt: skip
    if model is None:
        named = [choice.text for choice in chosen]
        only = {name: trained.outputs(name) for name in data.sets}
        return _conclude(
            score(only, named, train="train", id="id", memory=memory), notes, ours, chosen
        )
    runs = models_of(model, weights, data, notes.add)
    together = [c.text for c in chosen if ENSEMBLE in c.detector.needs]
    alone = [c.text for c in chosen if c.text not in together]
    tables: dict[str, ScoreTable] = {}
    answers: dict[str, dict[str, Tensor]] = {}
    unsteady: dict[str, dict[str, float]] = {}
    # One model after the other; of each, no more is kept than an ensemble needs.
    for run, build in runs.items():
        if len(runs) > 1:
            notes.progress(f"run {len(answers) + 1} of {len(runs)}: {run}")
        network = build()
        outputs = extract(
            network, data.batches(), needs=needs_of(alone) if alone else (), head=head,
            device=device, lenient=True,
        )  # fmt: skip
        _require_held_out(outputs, "train", "id")
        if not answers:  # the same data for all models
            _warn_of_training_data(outputs, notes)
        _note_refused_logits(run, outputs["train"], notes)
        _note_accuracy(run, outputs["id"], notes)
        unsteady[run] = unsteadiness(network, data.batches()["id"], head=head, device=device)
        if alone:
            outputs = {name: trained.joined(name, part) for name, part in outputs.items()}
            tables[run] = score(outputs, alone, train="train", id="id", memory=memory)
        answers[run] = _votes_of(outputs) if together else {}
        del outputs, network  # before the next are made
    for sentence in unsteady_caveats(unsteady, len(runs)):
        notes.warn(sentence)
    if together:
        tables = _with_ensemble(tables, answers, together)
    table = next(iter(tables.values())) if len(tables) == 1 else join_runs(tables, "weights")
    return _conclude(table, notes, ours, chosen)


def evaluate_outputs(
    outputs: Mapping[str, Outputs | PathLike],
    *,
    detectors: Detectors = "all",
    ours: str = "",
    memory: int | None = None,
    notify: Callable[[str], None] | None = None,
) -> Evaluation:
    """Score saved outputs of a classifier with every detector, and compare the detectors.

    `outputs` maps "train", "id" and the names of outlier sets to Outputs, or to files that
    `oodometer.saved.load_outputs` reads.
    """
    chosen = _comparable(detectors, ours)
    notes = _Notes(notify)
    for name in ("train", "id"):
        if name not in outputs:
            raise UserError(f"Outputs need '{name}'; they hold {', '.join(outputs) or 'nothing'}.")
    given = {name: part for name, part in outputs.items() if isinstance(part, Outputs)}
    files = {name: Path(part) for name, part in outputs.items() if not isinstance(part, Outputs)}
    if "train" in given:  # files that hold probabilities are noted as they are read
        _note_refused_logits("", given["train"], notes)
    parts = given | (load_outputs(files, notes.add) if files else {})
    _require_held_out(parts, *(str(files.get(name, name)) for name in ("train", "id")))
    _warn_of_training_data(parts, notes)
    _note_accuracy("", parts["id"], notes)
    needs = frozenset(need for choice in chosen for need in choice.detector.needs)
    explained = {name: _explained(parts[name], needs) for name in outputs if name in parts}
    table = score(explained, detectors, train="train", id="id", memory=memory)
    return _conclude(table, notes, ours, chosen)


class _Notes:
    """Collects notes and passes them on."""

    def __init__(self, notify: Callable[[str], None] | None) -> None:
        self.progress: Callable[[str], None] = notify or (lambda _: None)
        self.texts: list[str] = []
        self.caveats: list[str] = []

    def warn(self, sentence: str) -> None:
        """Keep a sentence as a caveat of all findings, and pass it on."""
        self.caveats.append(sentence)
        self.progress(f"{sentence[0].lower()}{sentence[1:].rstrip('.')}")

    def add(self, text: str) -> None:
        """Keep a note, and pass it on."""
        self.texts.append(text)
        self.progress(text)


def _comparable(detectors: Detectors, ours: str) -> list[Choice]:
    """Refuse detectors that all learn from outliers: the tables are about the others."""
    chosen = choices(detectors)
    if all(choice.detector.learns_from_outliers for choice in chosen):
        raise UserError(
            f"{', '.join(choice.label for choice in chosen)}: evaluate compares detectors that "
            "have seen no outliers; name one of those too, such as max_softmax."
        )
    labels = [choice.label for choice in chosen]
    if ours and ours not in labels:
        raise unknown("detector, named by 'ours':", ours, labels)
    return chosen


def require_no_classifier(chosen: Sequence[Choice]) -> None:
    """Refuse detectors that read outputs of a classifier if there is none."""
    others = [
        choice.label
        for choice in chosen
        if any(need.source != "model" for need in choice.needs(grid=False))
    ]
    if others:
        raise UserError(
            f"No classifier is given, whose outputs {', '.join(others[:5])}"
            f"{' and others' * (len(others) > 5)} would read: give a model, or name detectors with "
            "networks of their own only."
        )


def models_of(
    model: Models,
    files: PathLike | Sequence[PathLike],
    data: OwnData,
    note: Callable[[str], None],
) -> dict[str, Callable[[], nn.Module]]:
    """Run names and what builds the model of each; unfit files are refused before anything runs."""
    weights = [Path(file) for file in ([files] if isinstance(files, str | os.PathLike) else files)]
    if isinstance(model, str):
        build = partial(load_model, model, data.shape, data.classes)
        if not weights:
            note(f"no weights: '{model}' is used as constructed")
            return {"": lambda: build(None)}
        names = _run_names(weights)
        for path in weights[1:]:
            build(path)
        return {name: partial(build, path) for name, path in zip(names, weights, strict=True)}
    if weights:
        raise UserError("weights are checkpoint files for a model given as package.module:factory.")
    return {name: partial(_same, one) for name, one in _modules(model).items()}


def _modules(model: object) -> dict[str, nn.Module]:
    """Models by their names; a single one needs none."""
    if isinstance(model, nn.Module):
        return {"": model}
    if not isinstance(model, Mapping | Sequence):
        raise UserError(
            "model must be a torch.nn.Module, several of them, or package.module:factory, got "
            f"{type(model).__name__}."
        )
    if not model:
        raise UserError("There is no model to evaluate: give at least one torch.nn.Module.")
    modules: dict[str, nn.Module] = {}
    for name, one in model.items() if isinstance(model, Mapping) else enumerate(model, 1):
        if not isinstance(one, nn.Module):
            raise UserError(f"Model '{name}' must be a torch.nn.Module, got {type(one).__name__}.")
        modules[str(name)] = one
    return modules


def _same(model: nn.Module) -> nn.Module:
    return model


def _run_names(weights: Sequence[Path]) -> list[str]:
    """Names of runs: those of their files, and as much of the path as distinguishes them."""
    known = set()
    for path in weights:
        if real_path(path) in known:
            raise UserError(f"weights name '{path}' twice.")
        known.add(real_path(path))
    for parts in range(1, 1 + max(len(path.parts) for path in weights)):
        names = ["/".join((*path.parts[-parts:-1], path.stem)) for path in weights]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in weights]


def _require_held_out(outputs: Mapping[str, Outputs], train: str, id: str) -> None:
    """Refuse an ID set that is the training set."""
    for what in ("features", "logits"):
        one, other = (getattr(outputs[name], what) for name in ("train", "id"))
        if one is not None and other is not None and torch.equal(one, other):
            raise UserError(
                f"'{train}' and '{id}' hold the same {what}: detectors must not be evaluated on "
                "the data they are fitted to."
            )


def _warn_of_training_data(outputs: Mapping[str, Outputs], notes: _Notes) -> None:
    """Name sets that hold training samples, by their logits."""
    known = outputs["train"].logits
    for name, part in outputs.items():
        if name == "train" or known is None or part.logits is None:
            continue
        shared = shared_rows(part.logits.numpy(), known.numpy())
        if shared >= SHARED * len(part.logits):
            notes.warn(
                f"{shared} of {len(part.logits)} samples of '{name}' have exactly the logits of a "
                "training sample: they are probably training data, to which detectors are fitted."
            )


def _explained(outputs: Outputs, needs: frozenset[Need]) -> Outputs:
    """The same outputs with the reason for every need that they lack."""
    lacking = {str(need): Refusal(_why_missing(need)) for need in needs - outputs.available}
    return outputs.refusing(lacking)


def _why_missing(need: Need) -> str:
    """Say why saved outputs lack what a detector needs."""
    if need.source == "model":
        return f"needs the detector model '{need.name}', which a study trains: see 'oodometer run'"
    if need == ENSEMBLE:
        return "needs several models or checkpoints of the same classifier, not saved outputs"
    if need.beyond_outputs:
        return "needs the model itself, not saved outputs"
    saved_as = {"head": "weight and bias", "relative_logits": "logits"}
    return f"{saved_as.get(need.name, need.name)} were not saved"


def _note_refused_logits(run: str, outputs: Outputs, notes: _Notes) -> None:
    """Say that there are probabilities in place of logits, which some detectors need."""
    why = None if outputs.logits is None else outputs.refused.get("logits")
    if why is not None:
        of = f"run {run}: " if run else ""
        notes.add(f"{of}{why}; detectors that need logits, such as energy, are left out")


def _note_accuracy(run: str, outputs: Outputs, notes: _Notes) -> None:
    """Point out a classifier that only guesses: its weights or inputs may be wrong."""
    right, chance = right_and_chance(outputs) or (np.empty(0), None)
    if chance is not None and not is_above_chance(int(right.sum()), len(right), chance):
        of = f" of {run}" if run else ""
        notes.add(
            f"the accuracy{of} on the ID data is {right.mean():.1%}, no better than chance: check "
            "the weights, the normalization and the order of the classes"
        )


def _votes_of(outputs: Mapping[str, Outputs]) -> dict[str, Tensor]:
    """The logits of a member of an ensemble; nothing is fitted, so one training sample will do."""
    return {
        name: part.logits[:1].clone() if name == "train" else part.logits
        for name, part in outputs.items()
        if part.logits is not None
    }


def _with_ensemble(
    tables: Mapping[str, ScoreTable],
    answers: Mapping[str, Mapping[str, Tensor]],
    detectors: Sequence[str],
) -> dict[str, ScoreTable]:
    """Add the scores of what all models say together to every run."""
    if len(answers) > 1:
        joint = _score_together(list(answers.values()), detectors)
        if not tables:
            return dict.fromkeys(answers, joint)
        return {run: replace(t, rows=t.rows + joint.rows) for run, t in tables.items()}
    why = "an ensemble needs several models or checkpoints of the same classifier."
    if not tables:
        raise UserError(f"No detector could be used: {why}")
    missing = tuple(Missing(why, detector=label, lasting=True) for label in detectors)
    return {run: replace(t, missing=t.missing + missing) for run, t in tables.items()}


def _score_together(
    answers: Sequence[Mapping[str, Tensor]], detectors: Sequence[str]
) -> ScoreTable:
    made = {}
    for name in answers[0]:
        logits = [answer[name] for answer in answers]
        if len({part.shape for part in logits}) > 1:
            raise UserError(
                f"The models give logits of different shapes on '{name}': "
                f"{', '.join(sorted({str(tuple(part.shape)) for part in logits}))}."
            )
        votes = summarize_votes(torch.stack(logits)).to(logits[0].dtype)
        made[name] = Outputs(logits[0], answers={ENSEMBLE: votes})
    return score(made, detectors, train="train", id="id")


def _conclude(table: ScoreTable, notes: _Notes, ours: str, chosen: Sequence[Choice]) -> Evaluation:
    compared = {row.detector for row in table.rows if row.default}
    learned = sorted({row.detector for row in table.rows} - compared)
    if learned:
        notes.add(
            f"{', '.join(learned)}: fitted with half of each outlier set, so not compared with the "
            "other detectors; the scores are in the score table"
        )
    found = conclude(table, ours, caveats=notes.caveats, notes=notes.texts)
    families = {choice.label: family_of(choice.needs(grid=False)) for choice in chosen}
    findings = tuple(replace(finding, families=families) for finding in found.findings)
    return replace(found, findings=findings)
