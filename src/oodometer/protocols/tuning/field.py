"""Every setting of every detector: chosen by nobody, on other outliers, or on the test itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError
from oodometer.metrics import auroc
from oodometer.metrics.counts import Floats
from oodometer.protocols.common.score_cases import LEARNED
from oodometer.protocols.common.training_runs import TrainingRuns
from oodometer.scores import ScoreTable, validation_half
from oodometer.stats.averaging import average_over_looks, average_over_sets
from oodometer.stats.comparison import Placements
from oodometer.stats.tuning import Tuning, sensitivity, tuning_leave_one_out

CHOICES = ("default", "tuned", "oracle")
Judged = list[tuple[Floats, Floats]]  # one run: ID samples for testing and outliers, of each set


@dataclass(frozen=True, eq=False)
class TunedDetector:
    """One detector in every unit (a training, or an outlier set where there is one training)."""

    name: str
    default: Floats  # (units,): AUROC of the default, of the tuned and of the best setting
    tuned: Floats
    oracle: Floats
    choices: tuple[Tuning, ...]  # one per run and test set
    curve: Mapping[str, Floats]  # setting -> mean AUROC over outlier sets, per training
    incomplete: int  # settings that some run lacks
    samples: Mapping[str, Placements]  # choice -> samples it was judged by, if one training only

    @cached_property
    def spread(self) -> float:
        """How far the best setting's mean over all runs lies above the worst's."""
        means = [float(values.mean()) for values in self.curve.values()]
        return max(means) - min(means)

    def usual(self, choice: str) -> tuple[str, int]:
        """The setting that was chosen most often, and how often."""
        return Counter(getattr(part, choice).setting for part in self.choices).most_common(1)[0]


@dataclass(frozen=True, eq=False)
class TuningField:
    """What choosing settings does, for every detector that has a grid."""

    detectors: tuple[TunedDetector, ...]
    fixed: Mapping[str, Floats]  # detectors without a grid -> AUROC of each unit
    fixed_samples: Mapping[str, Placements]  # the same of one training -> its samples
    learned: tuple[str, ...]  # detectors learned from outliers, which take no part
    left_out: tuple[str, ...]  # detectors with a grid that no run has whole
    units: int
    are_trainings: bool
    runs: int  # several may be looks at one training
    sets: int

    @property
    def unit(self) -> str:
        """What a unit is."""
        return "training" if self.are_trainings else "outlier set"


def tuning_field(table: ScoreTable) -> TuningField:
    """Choose settings in every run, each outlier set being the test once."""
    if len(table.ood) < 2:
        raise UserError(
            "Tuning needs two outlier sets, one to choose on and one to test on; the table has "
            f"{', '.join(table.ood) or 'none'}."
        )
    grids, defaults, learned = _grids(table)
    names = (table.id, *table.ood)
    complete = {
        (run, detector): {s: rows for s, rows in settings.items() if all(n in rows for n in names)}
        for (run, detector), settings in grids.items()
    }
    gridded = [d for d in table.detectors
               if any(len(s) > 1 for (_, name), s in grids.items() if name == d)]  # fmt: skip
    usable = {
        detector: [
            run
            for run in table.runs
            if len(found := complete.get((run, detector), {})) > 1
            and defaults.get((run, detector)) in found
        ]
        for detector in gridded
    }
    kept = [detector for detector in gridded if usable[detector]]
    if not kept:
        raise UserError("No detector has scores of two settings on every data set of a run.")
    most = max(len(runs) for runs in usable.values())
    kept = [detector for detector in kept if len(usable[detector]) * 2 > most]
    runs = [run for run in table.runs if all(run in usable[detector] for detector in kept)]
    if not runs:
        raise UserError("No run has scores of two settings for every detector with a grid.")
    units = _Units.of(table, runs)
    others = [d for d in table.detectors if d not in gridded and d not in learned]
    fixed = {d: scores for d in others if (scores := _fixed(table, d, runs)) is not None}
    return TuningField(
        detectors=tuple(_tuned(table, d, runs, complete, defaults, units) for d in kept),
        fixed={d: units.cases(_areas(scores)) for d, scores in fixed.items()},
        fixed_samples={}
        if units.trainings > 1
        else {d: _placed(scores, table.same_samples) for d, scores in fixed.items()},
        learned=tuple(learned),
        left_out=tuple(detector for detector in gridded if detector not in kept),
        units=units.trainings if units.trainings > 1 else len(table.ood),
        are_trainings=units.trainings > 1,
        runs=len(runs),
        sets=len(table.ood),
    )


@dataclass(frozen=True)
class _Units:
    """What counts as one case: looks at one training are one."""

    training: tuple[int, ...]  # of each run
    trainings: int

    @staticmethod
    def of(table: ScoreTable, runs: list[str]) -> _Units:
        """Number the trainings: runs that differ in more than the look that is taken."""
        looks = TrainingRuns.of({run: table.runs[run] for run in runs}, table.factors)
        training = {run: number for number, own in enumerate(looks.members) for run in own}
        return _Units(tuple(training[run] for run in range(len(runs))), len(looks))

    def by_training(self, values: Floats) -> Floats:
        """Means over the runs of each training, along the first axis."""
        own = np.array(self.training)
        return np.array([values[own == number].mean(axis=0) for number in range(self.trainings)])

    def cases(self, values: Floats) -> Floats:
        """One value per case, of values by run and outlier set."""
        means: Floats = self.by_training(values).mean(axis=1 if self.trainings > 1 else 0)
        return means


Grids = dict[tuple[str, str], dict[str, dict[str, Floats]]]  # run, detector -> setting -> data set


def _grids(table: ScoreTable) -> tuple[Grids, dict[tuple[str, str], str], list[str]]:
    grids: Grids = {}
    defaults: dict[tuple[str, str], str] = {}
    learned: dict[str, None] = {}
    for row in table.rows:
        if row.setting.startswith(LEARNED):
            learned[row.detector] = None
            continue
        settings = grids.setdefault((row.run, row.detector), {})
        settings.setdefault(row.setting, {})[row.dataset] = row.scores
        if row.default:
            defaults[row.run, row.detector] = row.setting
    return grids, defaults, list(learned)


def _tuned(
    table: ScoreTable,
    detector: str,
    runs: list[str],
    complete: Grids,
    defaults: Mapping[tuple[str, str], str],
    units: _Units,
) -> TunedDetector:
    choices: list[Tuning] = []
    judged: dict[str, list[Judged]] = {choice: [] for choice in CHOICES}
    curves: dict[str, list[float]] = {}
    for run in runs:
        scores = complete[run, detector]
        seen = _half(next(iter(scores.values()))[table.id])
        found = tuning_leave_one_out(
            scores, id=table.id, default=defaults[run, detector], id_validation=seen
        )
        choices += found
        for choice, lines in judged.items():
            settings = [(scores[getattr(part, choice).setting], part.test[0]) for part in found]
            lines.append([(own[table.id][~seen], own[test]) for own, test in settings])
        for setting, mean in sensitivity(scores, id=table.id).items():
            curves.setdefault(setting, []).append(mean)
    per_run = (len(runs), len(table.ood))
    default, tuned, oracle = (
        np.array([getattr(part, choice).test for part in choices]).reshape(per_run)
        for choice in CHOICES
    )
    whole = {s: units.by_training(np.array(v)) for s, v in curves.items() if len(v) == len(runs)}
    return TunedDetector(
        detector,
        units.cases(default),
        units.cases(tuned),
        units.cases(oracle),
        tuple(choices),
        whole,
        len(curves) - len(whole),
        {}
        if units.trainings > 1
        else {choice: _placed(lines, table.same_samples) for choice, lines in judged.items()},
    )


def _fixed(table: ScoreTable, detector: str, runs: list[str]) -> list[Judged] | None:
    """The ID samples for testing, as for the others, and outliers; None where some are missing."""
    lines = []
    for run in runs:
        inliers = table.scores(run, detector, table.id)
        outliers = [table.scores(run, detector, ood) for ood in table.ood]
        if inliers is None:
            return None
        unseen = inliers[~_half(inliers)]
        lines.append([(unseen, scores) for scores in outliers if scores is not None])
    return lines if all(len(line) == len(table.ood) for line in lines) else None


def _areas(lines: list[Judged]) -> Floats:
    """AUROC by run and outlier set."""
    return np.array([[auroc(*pair) for pair in line] for line in lines])


def _placed(lines: list[Judged], shared: bool) -> Placements:
    """Samples of runs that are looks at one training: their mean over looks and outlier sets."""
    looks = [list(range(len(lines)))]
    sets = [Placements.of_runs(pairs, shared_samples=shared) for pairs in zip(*lines, strict=True)]
    return average_over_sets([average_over_looks(placed, looks) for placed in sets])


def _half(scores: Floats) -> NDArray[np.bool_]:
    if len(scores) < 2:
        raise UserError("Tuning needs two ID samples, one to choose on and one to test on.")
    return validation_half(len(scores))
