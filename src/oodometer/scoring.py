"""Fit detectors and score with them: from Outputs to a ScoreTable."""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

import oodometer.builtin  # noqa: F401 - importing registers the built-in detectors
from oodometer.calls import Setting, setting_text
from oodometer.detectors._arrays import working_memory
from oodometer.detectors._checks import require_possible
from oodometer.errors import UserError, describe, unknown
from oodometer.needs import in_text
from oodometer.outputs import Outputs, RefusedError
from oodometer.registry import (
    DETECTORS,
    Choice,
    ScoreOutputs,
    Validation,
    choose,
)
from oodometer.scores import Missing, ScoreRow, ScoreTable, validation_half

LEAST_MEMORY = 2**20  # bytes; with less, detectors would work row by row


def choices(detectors: Literal["all"] | str | Sequence[str]) -> list[Choice]:
    """Look up the named detectors, or all that are registered and not used by name only.

    A list may say "all" too, beside those that are used by name only.
    """
    names = [detectors] if isinstance(detectors, str) else detectors
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise UserError(f"detectors must be 'all' or a list of names, got {detectors!r}.")
    if not names:
        raise UserError("detectors is an empty list: name at least one, or say 'all'.")
    if "all" in names:
        named = [name for name in names if name != "all"]
        usual = [name for name in sorted(DETECTORS) if not DETECTORS[name].only_by_name]
        names = [*(name for name in usual if name not in named), *named]
    chosen = [choose(name) for name in names]
    labels = [choice.label for choice in chosen]
    for label in labels:
        if labels.count(label) > 1:
            raise UserError(f"Detector '{label}' is named twice.")
    for choice in chosen:
        require_possible(choice)
    return chosen


def needs_of(
    detectors: Literal["all"] | str | Sequence[str] = "all", *, grid: bool = False
) -> tuple[str, ...]:
    """What a model must be asked for so that these detectors can be used: `needs` of `extract`.

    What is made of several models, or of outliers, is not among it. `grid` is that of `score`:
    some settings need more than the default.
    """
    needs = {need for choice in choices(detectors) for need in choice.needs(grid=grid)}
    return tuple(in_text(need for need in needs if need.of_classifier))


def score(
    outputs: Mapping[str, Outputs],
    detectors: Literal["all"] | str | Sequence[str] = "all",
    *,
    train: str = "train",
    id: str = "test",
    grid: bool = False,
    memory: int | None = None,
) -> ScoreTable:
    """Score every data set with every detector; all but `train` and `id` are outlier sets.

    Detectors are fitted on `train`. `grid=True` adds the scores of every setting of each grid. A
    detector that cannot be used is left out and named, with the reason, in ``table.missing``.
    `memory` is how many bytes a detector may hold at once besides its inputs and results.
    """
    _require_usable(outputs, train, id, memory)
    tests = {name: part for name, part in outputs.items() if name != train}
    rows: list[ScoreRow] = []
    missing: list[Missing] = []
    with working_memory(memory):
        for choice in choices(detectors):
            for result in score_choice(choice, outputs[train], tests, id=id, grid=grid):
                if isinstance(result, ScoreRow):
                    rows.append(result)
                else:
                    missing.append(result)
    if not rows:
        raise UserError(f"No detector could be used. {missing[0]}")
    known = right_and_chance(tests[id])
    return ScoreTable(
        id,
        tuple(rows),
        missing=tuple(missing),
        correct={} if known is None else {"": known[0]},
        chance={} if known is None or known[1] is None else {"": known[1]},
    )


def _require_usable(
    outputs: Mapping[str, Outputs], train: str, id: str, memory: int | None
) -> None:
    """Refuse what cannot be scored, in one sentence."""
    if not isinstance(outputs, Mapping):
        raise UserError(f"score needs a mapping of names to Outputs, got {type(outputs).__name__}.")
    for name, given in outputs.items():
        if not isinstance(given, Outputs):
            raise UserError(f"'{name}' must be Outputs, got {type(given).__name__}.")
    for name in (train, id):
        if name not in outputs:
            raise unknown("data set", name, outputs)
    if train == id:
        raise UserError(f"train and id are both '{id}': detectors must not score what they fit.")
    if len(outputs) < 3:
        raise UserError(f"There is no outlier set: outputs contain only {', '.join(outputs)}.")
    _require_one_classifier(outputs)
    for name, part in outputs.items():
        if not len(part):
            raise UserError(f"Data set '{name}' is empty.")
    if memory is not None and (type(memory) is not int or memory < LEAST_MEMORY):
        raise UserError(
            f"memory must be a whole number of bytes, at least {LEAST_MEMORY}, got {memory!r}."
        )


def score_choice(
    choice: Choice,
    train: Outputs,
    tests: Mapping[str, Outputs],
    *,
    id: str,
    grid: bool,
    run: str = "",
) -> Iterator[ScoreRow | Missing]:
    """Fit one detector and score the data sets; with `grid`, at every setting of its grid.

    What fails is reported once for all settings that fail alike; the other settings go on. One that
    learns from outliers is fitted with each outlier set in turn, see `_learned`.
    """
    settings = choice.tried(grid=grid)
    if choice.detector.learns_from_outliers:
        yield from _learned(choice, settings, train, tests, id, run)
        return
    failed: list[_Failed] = []
    for values in settings:
        scored = _scores(partial(choice.detector.fit, train, validation=None, **values), tests)
        if isinstance(scored, Missing):
            failed.append((values, replace(scored, run=run, detector=choice.label)))
            continue
        for name, scores in scored.items():
            default, text = values == choice.settings, setting_text(values)
            yield ScoreRow(run, choice.label, text, name, scores, default, settings=values)
    default_failed = [missing for values, missing in failed if values == choice.settings]
    yield from default_failed  # without a setting: nothing represents the detector
    reported = {missing.reason for missing in default_failed}
    if len(failed) < len(settings):
        yield from _report_once(
            [pair for pair in failed if pair[1].reason not in reported], settings
        )


_Failed = tuple[Mapping[str, Setting], Missing]


def _report_once(
    failed: Sequence[_Failed], tried: Sequence[Mapping[str, Setting]]
) -> Iterator[Missing]:
    """Report a reason once where the settings that fail for it are all of those with some values.

    That is ``space=pixels`` in place of ``k=1, space=pixels``, ``k=2, space=pixels``, ...
    """
    for reason in dict.fromkeys(missing.reason for _, missing in failed):
        alike = [pair for pair in failed if pair[1].reason == reason]
        common = {
            name: value
            for name, value in alike[0][0].items()
            if all(values[name] == value for values, _ in alike)
            and any(values[name] != value for values in tried)
        }
        meant = [values for values in tried if common.items() <= values.items()]
        if common and len(meant) == len(alike):
            alike = [(common, alike[0][1])]
        for values, missing in alike:
            yield replace(missing, setting=setting_text(values))


def _learned(
    choice: Choice,
    settings: Sequence[Mapping[str, Setting]],
    train: Outputs,
    tests: Mapping[str, Outputs],
    id: str,
    run: str,
) -> Iterator[ScoreRow | Missing]:
    """Fit with the validation halves of the ID set and of each outlier set; score all of all sets.

    The setting tells which outliers: ``outliers=svhn, k=8``. None of them represents the detector
    in comparisons with others, which have seen no outliers.
    """
    halves = {name: _validation_rows(part) for name, part in tests.items()}
    failed: list[_Failed] = []
    tried: list[Mapping[str, Setting]] = []
    for outliers, own in itertools.product([n for n in tests if n != id], settings):
        values: Mapping[str, Setting] = {"outliers": outliers, **own}
        tried.append(values)
        sides = Validation(halves[id], halves[outliers], outliers)
        fit = partial(choice.detector.fit, train, validation=sides, **own)
        scored = _scores(fit, tests)
        if isinstance(scored, Missing):
            failed.append((values, replace(scored, run=run, detector=choice.label)))
            continue
        for name, scores in scored.items():
            text = setting_text(values)
            yield ScoreRow(run, choice.label, text, name, scores, False, outliers, own)
    if failed and len(failed) == len(tried):  # nothing is left of the detector
        yield failed[0][1]
    else:
        yield from _report_once(failed, tried)


def _validation_rows(outputs: Outputs) -> Outputs:
    """The samples that may be learned from."""
    return outputs.take(torch.from_numpy(validation_half(len(outputs))).nonzero()[:, 0])


def _scores(
    fit: Callable[[], ScoreOutputs], tests: Mapping[str, Outputs]
) -> dict[str, NDArray[np.float64]] | Missing:
    """Fit and score; whatever goes wrong is returned."""
    try:
        with torch.no_grad():
            fitted = fit()
            return {name: fitted(part).cpu().double().numpy() for name, part in tests.items()}
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - a stranger's detector
        trace = "".join(traceback.format_exception(problem))
        if isinstance(problem, RefusedError):
            return Missing(problem.why, traceback=trace, lasting=True)
        return Missing(describe(problem), traceback=trace)


def right_and_chance(outputs: Outputs) -> tuple[NDArray[np.bool_], float | None] | None:
    """Which samples are right, and the accuracy of naming the most frequent class always.

    None without labels; with one logit nothing is known of chance.
    """
    labels, logits = outputs.labels, outputs.logits
    if labels is None or logits is None or not (labels >= 0).all():
        return None
    chance = float(labels.bincount().max() / len(labels)) if logits.shape[1] > 1 else None
    return (logits.argmax(1) == labels).cpu().numpy(), chance


def _require_one_classifier(outputs: Mapping[str, Outputs]) -> None:
    (first_name, first), *rest = outputs.items()
    for name, part in rest:
        for what in ("logits", "features"):
            a, b = getattr(first, what), getattr(part, what)
            if a is not None and b is not None and a.shape[1] != b.shape[1]:
                raise UserError(
                    f"{what} of '{name}' have width {b.shape[1]}, but those of '{first_name}' "
                    f"{a.shape[1]}: all outputs must come from one classifier."
                )
        both = first.logits is not None and part.logits is not None
        if both and ("logits" in first.refused) != ("logits" in part.refused):
            named = (name, first_name) if "logits" in part.refused else (first_name, name)
            raise UserError(
                f"'{named[0]}' holds probabilities, but '{named[1]}' logits: all outputs must be "
                "saved alike, before the softmax."
            )
        if first.head is None or part.head is None:
            continue
        same = first.head.weight.shape == part.head.weight.shape and torch.equal(
            first.head.weight, part.head.weight.to(first.head.weight)
        )
        if not same:
            raise UserError(
                f"The heads of '{first_name}' and '{name}' differ: all outputs must come from one "
                "classifier."
            )
