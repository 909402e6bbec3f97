"""What the robustness score is computed from: the runs of each cell, and how far they carry."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from oodometer.factors import OPTIMIZERS, Factor, first_titled, names
from oodometer.metrics.counts import Floats
from oodometer.protocols.common.cases import SEVERAL
from oodometer.protocols.common.cells import Pair, cells_of, require_metric_values
from oodometer.protocols.common.differences import has_shares
from oodometer.protocols.common.outer_units import INDEPENDENT, OuterUnits
from oodometer.protocols.common.words import count
from oodometer.protocols.robustness.left_out import (
    NOTHING,
    LeftOut,
    deviations,
    leaving_levels_out,
    leaving_out,
    leaving_out_of_sets,
)
from oodometer.protocols.robustness.runs import (
    Parts,
    Runs,
    all_but_each,
    count_runs,
    mean_of_sets,
    parts_of,
    run_of,
    runs_by_level,
)
from oodometer.results import Results
from oodometer.stats.jackknife import PositiveStatistic
from oodometer.stats.mixture import (
    Epsilon,
    Moments,
    heaviest,
    mixture,
    robustness_score,
    weights,
)
from oodometer.stats.summary import UNBOUNDED

LARGEST_PRODUCT = 75.0 * math.sqrt(75.0 * 25.0)  # mean * sqrt(Var) of shares in percent


@dataclass(frozen=True, eq=False, kw_only=True)
class Score(PositiveStatistic):
    """A robustness score with what it becomes if one unit (a run, or a part) is left out."""

    moments: Moments  # of the mixture
    heaviest: float  # the largest weight of a part, or of all whose runs agree
    left_out: LeftOut = NOTHING  # the moments without each unit
    squares: Floats = field(default_factory=lambda: np.empty(0))  # by data set; mean: value^2
    over_runs: PositiveStatistic | None = None  # of data sets: with runs left out of all of them


@dataclass(frozen=True, eq=False)
class ScoredMetric:
    """One metric, arranged for the score: runs per pair, detector and level of the factor."""

    results: Results
    factor: str  # empty if nothing was varied
    epsilon: Epsilon
    levels: tuple[str, ...]
    pairs: tuple[Pair, ...]
    cells: Mapping[tuple[Pair, str, str], Runs]  # pair, detector, level
    unit: str  # "percent", or "as given"
    re_evaluations: tuple[str, ...] = ()  # factors whose levels are averaged
    others: tuple[str, ...] = ()  # conditions whose levels are averaged
    outer: OuterUnits = INDEPENDENT  # what training runs have in common
    run_places: Mapping[tuple[str, str], int] = field(default_factory=dict)  # level, label -> there
    within: ScoredMetric | None = None  # by data set, if these are the cases: see `over_data_sets`

    @property
    def training_runs(self) -> int:
        """Of how many it tells."""
        return len(self.run_places)

    def units_at(self, level: str, labels: Sequence[str]) -> OuterUnits:
        """What these training runs under one level have in common."""
        return self.outer.at([self.run_places[level, label] for label in labels])

    @property
    def bounds(self) -> tuple[float, float]:
        """Between which values lie."""
        return (0.0, 100.0) if has_shares(self.results) else UNBOUNDED

    @cached_property
    def detectors(self) -> tuple[str, ...]:
        """All detectors of the table, as texts."""
        return tuple(map(str, self.results.detectors))

    @cached_property
    def wanted(self) -> dict[tuple[Pair, str], int]:
        """How many runs a cell of this pair and level has, if it is whole."""
        return {key: most for key, have in self._counts.items() if (most := max(have.values()))}

    @cached_property
    def _counts(self) -> dict[tuple[Pair, str], dict[str, int]]:
        return count_runs(self.cells)

    def lacking(self, pair: Pair, detector: str) -> dict[str, int]:
        """How many runs a detector lacks on a pair, per level; empty if none."""
        return self._gaps.get((pair, detector), {})

    @cached_property
    def _gaps(self) -> dict[tuple[Pair, str], dict[str, int]]:
        gaps: dict[tuple[Pair, str], dict[str, int]] = {}
        for (pair, level), wanted in self.wanted.items():
            have = self._counts[pair, level]
            for detector in self.detectors:
                if gap := wanted - have.get(detector, 0):
                    gaps.setdefault((pair, detector), {})[level] = gap
        return gaps

    @property
    def _shared_runs(self) -> str:
        """The factor, if its levels re-evaluate the same training runs; else nothing."""
        later = names(self.results.factors, "re_evaluation")
        return self.factor if self.factor in later else ""

    @property
    def has_shared_units(self) -> bool:
        """Whether all levels come from the same training runs, or from the same data sets."""
        return bool(self._shared_runs) or self.within is not None

    @property
    def levels_are_cases(self) -> bool:
        """Whether the factor is a split, or another repeat, each level of which has several runs.

        Then conclusions are for other splits, and the runs of one split are no further cases.
        """
        return self.factor in self.outer.shared and self.within is None

    @property
    def shared_level(self) -> str:
        """The repeat whose levels are left out as a whole because runs share them; or nothing."""
        return "" if self.levels_are_cases or self.within else self.outer.outermost

    @property
    def is_over_repeats(self) -> bool:
        """Whether the factor is a repeat: then another level is as good as this one."""
        return self.factor in names(self.results.factors, "repeat")

    def whole(self, pair: Pair) -> list[str]:
        """The detectors that lack nothing on a pair."""
        return [name for name in self.detectors if not self.lacking(pair, name)]

    def levels_of(self, pair: Pair) -> list[str]:
        """The levels under which a pair was measured at all."""
        return self._levels[pair]

    @cached_property
    def _levels(self) -> dict[Pair, list[str]]:
        return {p: [lv for lv in self.levels if (p, lv) in self.wanted] for p in self.pairs}

    @cached_property
    def detector_scores(self) -> dict[tuple[Pair, str], Score]:
        """Score of each detector on each pair, a mixture over levels; only where it is whole."""
        if self.within is not None:
            return {
                (self.pairs[0], name): self._blocked(name) for name in self.whole(self.pairs[0])
            }
        return {
            (pair, detector): self._score(self._cases(parts), self._shared_runs)
            for pair in self.pairs
            for detector, parts in parts_of(
                self.cells, pair, self.whole(pair), self.levels_of(pair)
            )
        }

    @cached_property
    def level_scores(self) -> dict[tuple[str, str, str], Score]:
        """Score of each level for each ID set and detector: a mixture over the outlier sets."""
        scores = {}
        for id_set in dict.fromkeys(pair.id for pair in self.pairs):
            pairs = [pair for pair in self.pairs if pair.id == id_set]
            for detector in self.detectors:
                for level in self.levels:
                    parts = {pair.ood: self.cells.get((pair, detector, level)) for pair in pairs}
                    whole = {name: runs for name, runs in parts.items() if runs is not None}
                    gaps = any(level in self.lacking(pair, detector) for pair in pairs)
                    if len(whole) == len(pairs) and not gaps:
                        shared = self._shared_runs or level
                        scores[id_set, detector, level] = self._score(Parts.of(whole), shared)
        return scores

    def _cases(self, parts: Parts) -> Parts:
        """The parts, without runs that could be left out if the levels themselves are the cases."""
        return parts._replace(runs=()) if self.levels_are_cases else parts

    def _score(self, parts: Parts, shared: str = "") -> Score:
        """Score of a mixture. `shared`: all parts come from the same runs, which it names."""
        variances = parts.moments.variance
        if self.shared_level and parts.runs:
            left_out = leaving_levels_out(parts, self.shared_level, self.epsilon)
        else:
            left_out = leaving_out(parts, shared, self.epsilon)
        mixed = mixture(*parts.moments, self.epsilon)
        bounded = self.unit == "percent" and not self.results.higher_is_better
        return Score(
            value=float(self._number(mixed)),
            units=left_out.units,
            logs=self._logs(left_out.moments),
            strata=left_out.strata,
            largest=LARGEST_PRODUCT if bounded else math.inf,
            moments=mixed,
            heaviest=heaviest(variances, self.epsilon),
            left_out=left_out,
            deviations=self._scaled(deviations(parts, left_out), mixed),
        )

    def _scaled(self, deviations: Floats, mixed: Moments) -> Floats:
        """Deviations in the unit of the score: relative to a gain, times a loss; or none."""
        if not mixed.mean > 0.0:
            return np.empty(0)
        power = -1.0 if self.results.higher_is_better else 1.0
        return np.asarray(deviations * mixed.mean**power)

    def _blocked(self, detector: str) -> Score:
        """Score of the mean and the variance over levels within data sets, which weigh the same."""
        assert self.within is not None, "asked of several data sets only"
        shared = self.cells[self.pairs[0], detector, self.levels[0]].labels
        by_set: dict[str, list[Score]] = {name: [] for name in shared}
        for pair in self.within.pairs:
            if pair.id in by_set:
                by_set[pair.id].append(self.within.detector_scores[pair, detector])
        moments = [[own.moments for own in by_set[name]] for name in shared]
        means = np.array([np.mean([m.mean for m in own]) for own in moments])
        variances = np.array([np.mean([m.variance for m in own]) for own in moments])
        others = all_but_each(len(shared))
        mixed = Moments(means.mean(), variances.mean())
        kept = Moments(means[others].mean(axis=1), variances[others].mean(axis=1))
        return Score(
            value=float(self._number(mixed)),
            units=tuple(("data set", name) for name in shared),
            logs=self._logs(kept),
            strata=np.array([len(shared)]),
            moments=mixed,
            heaviest=0.0,
            squares=variances * mixed.mean ** (-2.0 if self.results.higher_is_better else 2.0),
            over_runs=self._over_runs(mixed, list(by_set.values())),
        )

    def _over_runs(
        self, mixed: Moments, by_set: Sequence[Sequence[Score]]
    ) -> PositiveStatistic | None:
        """The score over data sets with each run left out, of all sets that it is in at once.

        What a run does may be alike on all sets, which differences between sets do not show. None
        if no two runs differ by chance alone: nothing is known of that then.
        """
        if not names(self.results.factors, "repeat"):
            return None
        left_out = leaving_out_of_sets(
            [[(own.moments, own.left_out) for own in scores] for scores in by_set]
        )
        return PositiveStatistic(
            value=float(self._number(mixed)),
            units=left_out.units,
            logs=self._logs(left_out.moments),
            strata=left_out.strata,
            deviations=_mean_deviations(left_out.units, [o for scores in by_set for o in scores]),
        )

    def over_data_sets(self) -> ScoredMetric:
        """The same with data sets as the cases, where there are several.

        Variances over levels are taken within each set, so that differences between sets count for
        nothing, and averaged; a set that some detector lacks counts for nobody.
        """
        usual = [
            name
            for name in self.detectors
            if 2 * sum(not self.lacking(pair, name) for pair in self.pairs) >= len(self.pairs)
        ]
        gaps = {p.id for p in self.pairs for name in usual if self.lacking(p, name)}
        fewer = {p.id for p in self.pairs if len(self.levels_of(p)) < len(self.levels)}
        ids = [name for name in dict.fromkeys(p.id for p in self.pairs) if name not in gaps | fewer]
        if len(ids) < SEVERAL or len(usual) < 1:
            return self
        place = Pair("", count(len(ids), "data set"))
        cells = {}
        for detector in usual:
            for level in self.levels:
                values = [
                    np.mean([self.cells[pair, detector, level].moments.mean
                             for pair in self.pairs if pair.id == name])
                    for name in ids
                ]  # fmt: skip
                runs = Runs(tuple(ids), np.array(values), np.zeros(len(ids)))
                cells[place, detector, level] = runs
        return replace(self, pairs=(place,), cells=cells, within=self)

    @cached_property
    def on_mean_set(self) -> ScoredMetric | None:
        """The runs that all data sets have, with their means over sets: what sets do not show.

        None if data sets are not the cases, or have no runs in common that differ by chance.
        """
        if self.within is None or not names(self.results.factors, "repeat"):
            return None
        (place,) = self.pairs
        found: dict[tuple[Pair, str, str], Runs] = {}
        for (_, detector, level), by_set in self.cells.items():
            runs = [
                [self.within.cells[p, detector, level] for p in self.within.pairs if p.id == name]
                for name in by_set.labels
            ]
            mean = mean_of_sets(runs)
            if not mean.labels:
                return None
            found[place, detector, level] = mean
        return replace(self, cells=found, within=None)

    def _number(self, moments: Moments) -> Floats:
        return robustness_score(moments, higher_is_better=self.results.higher_is_better)

    def _logs(self, moments: Moments) -> Floats:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self._number(moments)))


def _mean_deviations(units: Sequence[tuple[str, ...]], scores: Sequence[Score]) -> Floats:
    """Deviations of each unit, as a mean over the scores that it is in; none if one has none."""
    if not all(score.deviations.size for score in scores):
        return np.empty(0)
    found: dict[tuple[str, ...], list[float]] = {}
    for score in scores:
        for unit, value in zip(score.units, score.deviations.tolist(), strict=True):
            found.setdefault(unit, []).append(value)
    return np.array([np.mean(found[unit]) for unit in units])


def arrange(
    results: Results, factor: str | None = None, epsilon: Epsilon = "printed"
) -> ScoredMetric:
    """Arrange a results table for the score; without a factor, that of the paper or the nearest."""
    weights([1.0], epsilon)  # refuses an unknown form before anything else is done
    chosen = _factor(results) if factor is None else factor
    if factor is not None:
        results.kind(factor)  # refuses one that is not there
    require_metric_values(results)
    everything = cells_of(results).over_parts()
    # The conventions of the library are fractions; the paper's epsilon is meant for percent.
    is_share = results.is_share and float(np.nanmax(np.abs(everything.values))) <= 1.0
    # The levels of the factor are kept apart even if they re-evaluate the same training run.
    kinds = [
        Factor(f.name, "condition" if f.name == chosen else f.kind) for f in everything.factors
    ]
    cells = everything.scaled(100.0 if is_share else 1.0).over(*names(kinds, "re_evaluation"))
    others = tuple(name for name in names(kinds, "condition") if name != chosen)
    plain = cells.over_conditions(chosen)
    outer = OuterUnits.of(list(plain.runs.values()), plain.factors)
    runs = runs_by_level(plain, chosen, "" if chosen in outer.shared else outer.outermost)
    varied = [n for n in names(kinds) if len({r[n] for r in everything.runs.values()}) > 1]
    return ScoredMetric(
        results,
        chosen,
        epsilon,
        tuple(dict.fromkeys(level for _, level in runs.places)),
        tuple(dict.fromkeys(pair for pair, _ in runs.places)),
        runs,
        "percent" if is_share else "as given",
        tuple(name for name in names(kinds, "re_evaluation") if name in varied),
        tuple(name for name in others if name in varied),
        outer,
        {run_of(own, chosen): place for place, own in enumerate(plain.runs.values())},
    )


def conditions(results: Results) -> tuple[str, ...]:
    """The conditions that were varied."""
    return names(_varied(results), "condition")


def _varied(results: Results) -> list[Factor]:
    return [
        factor
        for factor in results.factors
        if factor.kind != "part" and results.frame[factor.name].nunique(dropna=False) > 1
    ]


def _factor(results: Results) -> str:
    """The optimizer if it was varied, else the first condition, re-evaluation or repeat."""
    known, varied = conditions(results), _varied(results)
    first = (known or names(varied, "re_evaluation") or names(varied) or ("",))[0]
    return first_titled(known, OPTIMIZERS) or first
