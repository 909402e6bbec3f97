"""Every experiment of OD-test on one source: learn on one outlier set, test on another."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from oodometer import metrics
from oodometer.factors import names
from oodometer.metrics.counts import Floats
from oodometer.protocols.common.sources import sources_of
from oodometer.protocols.common.training_runs import TrainingRuns
from oodometer.protocols.od_test.threshold import (
    Fit,
    accepting_threshold,
    exact_threshold,
    hinge_threshold,
)
from oodometer.scores import ScoreTable, validation_half
from oodometer.stats.pairwise import Sources

TUNED = ", tuned"

Experiment = tuple[str, str]  # validation set, test set


_T = TypeVar("_T", bound=np.generic)
_U = TypeVar("_U", bound=np.generic)


class Outcome(NamedTuple):
    """What came of all experiments on a source, in their order, for one way to set thresholds."""

    accuracy: Floats  # (runs, experiments)
    accepted: tuple[Floats, ...]  # per run: share of experiments that accept each ID test sample
    # Variances of the mean over runs that these do not show, with their degrees of freedom: where
    # a network serves several runs, retraining it would move the mean by more than they differ.
    unseen: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, eq=False)
class Method:
    """A method on one source, with its threshold set in three ways."""

    three: Outcome  # learned on another outlier set than the one tested
    two: Outcome  # learned on the outlier set that is tested, from other samples of it
    none: Outcome | None  # from ID data only; nothing for what was learned with outliers


@dataclass(frozen=True, eq=False)
class Source:
    """All experiments on one source."""

    name: str
    runs: tuple[str, ...]  # training runs: re-evaluations of one are averaged
    experiments: tuple[Experiment, ...]
    methods: Mapping[str, Method]
    incomplete: tuple[str, ...]  # methods that lack some scores
    samples: int  # the smallest group that an accuracy was measured on
    same_samples: bool
    once: tuple[str, ...] = ()  # detectors with the same scores in all of several training runs


class _Halves(NamedTuple):
    validation: Floats
    test: Floats


_Grid = Mapping[str, Mapping[str, _Halves]]  # setting -> data set
_Choices = Mapping[str, Sequence[str]]  # validation set -> settings to choose from
_Found = dict[str, tuple[Floats, Floats]]  # way -> accuracies, accepted


def experiment(
    table: ScoreTable, experiments: Sequence[Experiment], fit: Fit, rng: np.random.Generator
) -> Source:
    """Carry out experiments on one source: Algorithm 1, and beside it 2 and the usual two sets."""
    with_scores = {row.run for row in table.rows}
    runs = tuple(run for run in table.runs if run in with_scores)
    sets = tuple(dict.fromkeys(name for pair in experiments for name in pair))
    needed = (table.id, *sets)
    found: dict[str, dict[str, _Found]] = {}  # method -> run
    for run, detector, grid, default in _grids(table, runs, needed):
        tried = _methods(detector, grid, default, sets, table.outliers_by_setting)
        for name, choices in tried.items():
            own = found.setdefault(name, {})
            if all(choices.values()):
                own[run] = _one_run(grid, choices, table, experiments, fit, rng)
    training_runs, whole = _by_training_run(table, found, runs)
    shared = sources_of(table, runs, training_runs)
    methods = {name: _method(parts) for name, parts in whole.items()}
    return Source(
        table.id,
        training_runs.names,
        tuple(experiments),
        _with_unseen(methods, {n: shared[n.removesuffix(TUNED)] for n in methods}),
        tuple(name for name in found if name not in whole),
        min(len(row.scores) // 2 for row in table.rows if row.dataset in needed),
        table.same_samples,
        tuple(name for name, own in shared.items() if len({*own}) == 1 < len(own)),
    )


def _with_unseen(methods: Mapping[str, Method], shared: Mapping[str, Sources]) -> dict[str, Method]:
    """Add what retraining would change to methods that have the same scores in several runs.

    The variance of m different cases is s / m; of a single one, s is taken to be the largest of
    the methods with several, on one degree of freedom. If there is none, nothing is added, and
    results are for these networks.
    """
    cases = {name: sorted({*own}) for name, own in shared.items()}

    def variance(outcome: Outcome, name: str) -> float:
        return float(outcome.accuracy.mean(axis=1)[cases[name]].var(ddof=1))

    def completed(name: str, way: str) -> Outcome | None:
        outcome: Outcome | None = getattr(methods[name], way)
        many = len(cases[name])
        if outcome is None or many == len(shared[name]):
            return outcome
        if many > 1:
            return outcome._replace(unseen=((variance(outcome, name) / many, many - 1.0),))
        others = {n: getattr(methods[n], way) for n in methods if len(cases[n]) > 1}
        known = [variance(other, n) for n, other in others.items() if other is not None]
        return outcome._replace(unseen=((max(known), 1.0),)) if known else outcome

    made = {}
    for name in methods:
        three, two = completed(name, "three"), completed(name, "two")
        assert three is not None and two is not None, "given, so returned"
        made[name] = Method(three, two, completed(name, "none"))
    return made


def _by_training_run(
    table: ScoreTable, found: Mapping[str, Mapping[str, _Found]], runs: Sequence[str]
) -> tuple[TrainingRuns, dict[str, list[list[_Found]]]]:
    """The training runs, and what was found in each, for methods that have something in all."""
    divided = _dividing_factor(table, found, runs)
    # Methods that belong to one level of a factor stand beside the mean of the others over it.
    over = {} if divided is None else {divided: "all"}
    levels = {run: {**table.runs[run], **over} for run in runs}
    training_runs = TrainingRuns.of(levels, table.factors)
    cases = [[runs[place] for place in members] for members in training_runs.members]
    whole = {
        name: [[own[run] for run in case if run in own] for case in cases]
        for name, own in found.items()
        if len(own) == len(runs) or _is_divided(table, own, runs, divided)
    }
    return training_runs, {name: by_case for name, by_case in whole.items() if all(by_case)}


def _dividing_factor(
    table: ScoreTable, found: Mapping[str, Mapping[str, object]], runs: Sequence[str]
) -> str | None:
    """The factor that some methods belong to a level of, as LogisticSVM to the logistic loss.

    Such a method has been scored in all runs of its levels and in none of the others; where
    something failed, the factor is not the reason.
    """
    failed = {part.detector for part in table.missing}
    partial = [
        own
        for name, own in found.items()
        if 0 < len(own) < len(runs) and name.removesuffix(TUNED) not in failed
    ]
    for factor in names(table.factors, "condition"):
        if partial and all(_is_divided(table, own, runs, factor) for own in partial):
            return factor
    return None


def _is_divided(
    table: ScoreTable, own: Collection[str], runs: Sequence[str], factor: str | None
) -> bool:
    """Whether a method was scored in the runs of some levels of a factor, all of them."""
    if factor is None or not own:
        return False
    inside = {table.runs[run].get(factor) for run in own}
    outside = {table.runs[run].get(factor) for run in runs if run not in own}
    return inside.isdisjoint(outside)


def _grids(
    table: ScoreTable, runs: Sequence[str], needed: Sequence[str]
) -> Iterator[tuple[str, str, dict[str, dict[str, _Halves]], str]]:
    """Run, detector, its settings that have all data sets, and that which represents it."""
    halves: dict[int, NDArray[np.bool_]] = {}
    grids: dict[tuple[str, str], dict[str, dict[str, _Halves]]] = {}
    defaults: dict[tuple[str, str], str] = {}
    for row in table.rows:
        size = row.scores.size
        if size not in halves:
            halves[size] = validation_half(size)
        split = _Halves(row.scores[halves[size]], row.scores[~halves[size]])
        grid = grids.setdefault((row.run, row.detector), {})
        grid.setdefault(row.setting, {})[row.dataset] = split
        if row.default:
            defaults.setdefault((row.run, row.detector), row.setting)
    for run in runs:
        for detector in table.detectors:
            grid = grids.get((run, detector), {})
            whole = {s: cells for s, cells in grid.items() if all(n in cells for n in needed)}
            yield run, detector, whole, defaults.get((run, detector), "")


def _methods(
    detector: str,
    grid: _Grid,
    default: str,
    sets: Sequence[str],
    outliers_by_setting: Mapping[str, str],
) -> dict[str, dict[str, list[str]]]:
    """The detector as it is, and tuned if it has a grid: settings to choose from on each set.

    A setting that was learned with an outlier set takes part with that validation set only.
    """
    if any(setting in outliers_by_setting for setting in (default, *grid)):
        learned = {name: [s for s in grid if outliers_by_setting.get(s) == name] for name in sets}
        whole = learned
        plain = {name: settings[:1] for name, settings in learned.items()}
    else:
        whole = {name: list(grid) for name in sets}
        plain = {name: [default] if default in grid else [] for name in sets}
    several = any(len(settings) > 1 for settings in whole.values())
    return {detector: plain} | ({detector + TUNED: whole} if several else {})


def _one_run(
    grid: _Grid,
    choices: _Choices,
    table: ScoreTable,
    experiments: Sequence[Experiment],
    fit: Fit,
    rng: np.random.Generator,
) -> _Found:
    """All experiments with one method in one run."""
    id_set, rules = table.id, {}
    for name, settings in choices.items():
        setting = settings[0] if len(settings) == 1 else _tuned(grid, settings, id_set, name)
        groups = _balanced(grid[setting][id_set].validation, grid[setting][name].validation)
        rules[name] = (
            setting,
            exact_threshold(*groups) if fit == "exact" else hinge_threshold(*groups, rng),
        )
    found = {
        "three": _tested(grid, [(rules[learn], test) for learn, test in experiments], id_set),
        "two": _tested(grid, [(rules[test], test) for _, test in experiments], id_set),
    }
    fixed = {setting for options in choices.values() for setting in options}
    if len(fixed) == 1 and (setting := fixed.pop()) not in table.outliers_by_setting:
        rule = (setting, accepting_threshold(grid[setting][id_set].validation))
        found["none"] = _tested(grid, [(rule, test) for _, test in experiments], id_set)
    return found


def _tuned(grid: _Grid, settings: Sequence[str], id_set: str, name: str) -> str:
    """The setting with the highest AUROC on the validation samples, the first of the best."""
    values = [
        metrics.auroc(*_balanced(grid[s][id_set].validation, grid[s][name].validation))
        for s in settings
    ]
    return settings[int(np.argmax(values))]


def _balanced(one: NDArray[_T], other: NDArray[_U]) -> tuple[NDArray[_T], NDArray[_U]]:
    """As many of the one as of the other, the first ones kept, as published."""
    size = min(one.size, other.size)
    return one[:size], other[:size]


def _tested(
    grid: _Grid, plan: Sequence[tuple[tuple[str, float], str]], id_set: str
) -> tuple[Floats, Floats]:
    """Accuracy of each rule on its test set, and how often each ID test sample is accepted."""
    accepts = {
        rule: grid[rule[0]][id_set].test <= rule[1] for rule in dict.fromkeys(r for r, _ in plan)
    }
    done: dict[tuple[tuple[str, float], str], float] = {}
    for rule, name in plan:
        if (rule, name) not in done:
            kept, outliers = _balanced(accepts[rule], grid[rule[0]][name].test)
            wrong = kept.size - np.count_nonzero(kept) + np.count_nonzero(outliers <= rule[1])
            done[rule, name] = 1.0 - wrong / (2 * kept.size)
    share = np.zeros(next(iter(accepts.values())).size)
    for rule, _ in plan:
        share += accepts[rule]
    return np.array([done[step] for step in plan]), share / len(plan)


def _mean_of(parts: Sequence[_Found]) -> _Found:
    """The mean over several re-evaluations of one training run."""
    if len(parts) == 1:
        return parts[0]
    means: _Found = {}
    for way in parts[0]:
        if all(way in part for part in parts):
            accuracy = np.mean([part[way][0] for part in parts], axis=0)
            accepted = [part[way][1] for part in parts]
            # Different numbers of samples may be parts of each other: the smallest counts.
            same = len({shares.size for shares in accepted}) == 1
            means[way] = (
                accuracy,
                np.mean(accepted, axis=0) if same else min(accepted, key=np.size),
            )
    return means


def _method(by_case: Sequence[Sequence[_Found]]) -> Method:
    """Put the training runs together."""
    parts = [_mean_of(evaluations) for evaluations in by_case]
    outcomes = {
        way: Outcome(
            np.array([part[way][0] for part in parts]), tuple(part[way][1] for part in parts)
        )
        for way in ("three", "two", "none")
        if all(way in part for part in parts)
    }
    return Method(outcomes["three"], outcomes["two"], outcomes.get("none"))
