"""What detectors said: per run, detector, setting and data set, one score per sample."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oodometer import metrics
from oodometer.errors import UserError, unknown
from oodometer.factors import Factor, by_title, names
from oodometer.score_arrays import Higher, matrix_of, require_nested, signs_of

if TYPE_CHECKING:
    import pandas as pd

Level = bool | int | float | str
Cell = tuple[str, str, str, str]  # run, detector, setting, dataset


@dataclass(frozen=True, eq=False)
class ScoreRow:
    """The scores of one detector at one setting, in one run, on one data set."""

    run: str
    detector: str
    setting: str  # all settings, such as "k=50"; empty if there are none
    dataset: str
    scores: NDArray[np.float64]  # (n,), higher = more out-of-distribution
    default: bool = True  # the setting that represents the detector in comparisons
    learned_from: str = ""  # the outlier set that it was fitted with, if it was
    settings: Mapping[str, Level] = field(default_factory=dict)  # what `setting` says, as data

    def __post_init__(self) -> None:
        scores = np.array(self.scores, dtype=np.float64)  # a copy: it is made read-only
        where = f"Scores of '{self.detector}' on '{self.dataset}'{_in_run(self.run)}"
        if scores.ndim != 1 or not scores.size:
            raise UserError(f"{where} must be a non-empty vector, got shape {scores.shape}.")
        if not np.isfinite(scores).all():
            bad = np.flatnonzero(~np.isfinite(scores))
            raise UserError(
                f"{where} must be finite, but {bad.size} of {scores.size} are NaN or infinite, "
                f"the first at row {bad[0]}."
            )
        scores.flags.writeable = False
        object.__setattr__(self, "scores", scores)


@dataclass(frozen=True)
class Missing:
    """A cell that should be there and is not, with the reason. Empty text: not only one."""

    reason: str
    run: str = ""
    detector: str = ""
    setting: str = ""  # of the grid; empty: the one that represents the detector
    dataset: str = ""
    traceback: str = ""  # for whoever has to repair it
    lasting: bool = False  # the network or the data do not allow it: the same next time

    @property
    def failure(self) -> bool:
        """Whether another attempt could help, and more than one setting of a grid is missing."""
        return not self.setting and not self.lasting

    def __str__(self) -> str:
        detector = f"{self.detector}({self.setting})" if self.setting else self.detector
        named = {"detector": detector, "data set": self.dataset, "run": self.run}
        where = ", ".join(f"{kind} {name}" for kind, name in named.items() if name)
        return f"{where}: {self.reason}" if where else self.reason


Role = Literal["id", "ood", "search"]


@dataclass(frozen=True)
class SetInfo:
    """What a data set of a ScoreTable is there for.

    - **id**: held-out in-distribution data, one set per table.
    - **ood**: an outlier set, which every protocol reads.
    - **search**: outliers that a search has found, `against` a detector, among variations `of`
      another set, the first of its samples in order, `by` which variation. They were chosen by
      their scores, so that comparisons do not read them. A search may be repeated with another
      seed; `repeat` counts from 1.
    """

    role: Role = "ood"
    against: str = ""
    of: str = ""
    by: str = ""
    repeat: int = 1
    digest: str = ""  # of the samples, where it is known

    def __post_init__(self) -> None:
        if self.role not in get_args(Role):
            raise unknown("role of a data set", self.role, get_args(Role))


def search_title(variation: str, outliers: str, detector: str, repeat: int = 1) -> str:
    """The name of the data set that a search finds.

    >>> search_title("affine", "svhn", "knn", 2)
    'affine of svhn against knn, repeat 2'
    """
    title = f"{variation} of {outliers} against {detector}"
    return title if repeat == 1 else f"{title}, repeat {repeat}"


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """All scores of a study, or of one model.

    `id` names the in-distribution data set; every other data set is an outlier set, unless `sets`
    gives it another role. `runs` gives
    each run's factor levels, such as ``{"seed": 1, "optimizer": "adam"}``; `factors` says of what
    kind each of them is, by default what its name says. `correct` tells, where it is known, which
    in-distribution samples each run's classifier got right.
    """

    id: str
    rows: tuple[ScoreRow, ...]
    runs: Mapping[str, Mapping[str, Level]] = field(default_factory=lambda: {"": {}})
    missing: tuple[Missing, ...] = ()
    correct: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)  # run -> ID sample right
    same_samples: bool = True  # every run scored the same samples, in the same order
    factors: tuple[Factor, ...] = ()  # in the order of their first level
    sets: Mapping[str, SetInfo] = field(default_factory=dict)  # data set -> what it is there for
    # run -> the accuracy of naming the most frequent class of the ID set always, where it is known
    chance: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for row in self.rows:
            if row.run not in self.runs:
                raise unknown("run in a ScoreTable row", row.run, self.runs)
        if self.rows and not any(row.dataset == self.id for row in self.rows):
            raise unknown("in-distribution set", self.id, {row.dataset for row in self.rows})
        if len(self._index) != len(self.rows):
            seen: set[Cell] = set()
            for row in self.rows:
                cell = (row.run, row.detector, row.setting, row.dataset)
                if cell in seen:
                    raise UserError(f"A ScoreTable holds the cell {cell} twice.")
                seen.add(cell)
        self._require_one_default()
        self._require_equal_samples()
        object.__setattr__(self, "runs", _frozen(self.runs))
        object.__setattr__(self, "factors", self._factors())
        object.__setattr__(self, "sets", self._sets())
        for run, right in self.correct.items():
            if run not in self.runs:
                raise unknown("run in ScoreTable.correct", run, self.runs)
            samples = self._sizes.get((run, self.id), len(right))
            if np.asarray(right).dtype != np.bool_ or len(right) != samples:
                raise UserError(
                    f"ScoreTable.correct of run '{run}' must be {samples} booleans, one per sample "
                    f"of '{self.id}', got {len(right)} of {np.asarray(right).dtype}."
                )

    @classmethod
    def from_arrays(
        cls,
        scores: Mapping[str, Mapping[str, ArrayLike]],
        *,
        id: str,
        higher: Higher | Mapping[str, Higher],
        factor: str = "run",
    ) -> ScoreTable:
        """Make a table of scores that were computed elsewhere: detector -> data set -> scores.

        `id` names the in-distribution set, every other one is an outlier set. `higher` says which
        samples have higher scores, "ood" or "id", for all detectors or for each. All detectors
        score the same samples in the same order. Several runs: arrays of shape (runs, samples),
        whose runs differ in `factor`, such as "seed".

        >>> msp = {"cifar10": [0.9, 0.8, 0.7], "svhn": [0.6, 0.75]}
        >>> table = ScoreTable.from_arrays({"msp": msp}, id="cifar10", higher="id")
        >>> table.ood, table.scores("", "msp", "svhn").tolist()
        (('svhn',), [-0.6, -0.75])
        """
        require_nested(scores)
        signs = signs_of(higher, scores)
        cells = {
            (detector, name): signs[detector] * matrix_of(values, detector, name)
            for detector, sets in scores.items()
            for name, values in sets.items()
        }
        counts = {cell: len(matrix) for cell, matrix in cells.items()}
        (first, number), *_ = counts.items()
        for cell, other in counts.items():
            if other != number:
                raise UserError(
                    f"Scores of '{cell[0]}' on '{cell[1]}' have {other} runs, those of "
                    f"'{first[0]}' on '{first[1]}' have {number}: all need the same runs."
                )
        names = [str(run) for run in range(number)] if number > 1 else [""]
        rows = (
            ScoreRow(run, detector, "", name, matrix[place])
            for place, run in enumerate(names)
            for (detector, name), matrix in cells.items()
        )
        runs = {run: {factor: int(run)} if run else {} for run in names}
        return cls(id, tuple(rows), runs, factors=(Factor(factor, "repeat"),) * (number > 1))

    def _factors(self) -> tuple[Factor, ...]:
        varied = tuple(dict.fromkeys(name for levels in self.runs.values() for name in levels))
        for factor in self.factors:
            if factor.name not in varied:
                raise unknown("factor of a ScoreTable", factor.name, varied)
        known = {factor.name: factor for factor in self.factors}
        return tuple(known.get(name) or by_title(name) for name in varied)

    def _sets(self) -> Mapping[str, SetInfo]:
        for name, info in self.sets.items():
            if (info.role == "id") != (name == self.id):
                raise UserError(
                    f"Data set '{name}' has the role '{info.role}', but the in-distribution set of "
                    f"this ScoreTable is '{self.id}'."
                )
        outliers = dict.fromkeys((row.dataset for row in self.rows), SetInfo("ood"))
        return MappingProxyType({**outliers, self.id: SetInfo("id"), **self.sets})

    def _require_one_default(self) -> None:
        if len(self._defaults) != sum(row.default for row in self.rows):
            seen: set[tuple[str, str, str]] = set()
            for row in self.rows:
                cell = (row.run, row.detector, row.dataset)
                if row.default and cell in seen:
                    raise UserError(
                        f"Detector '{row.detector}' has two default settings on '{row.dataset}' in "
                        f"run '{row.run}': one must represent it."
                    )
                seen |= {cell} if row.default else set()

    def _require_equal_samples(self) -> None:
        """All detectors score the same samples, and all runs too where the table says so."""
        for row in self.rows:
            wanted = self._sizes[row.run, row.dataset]
            if len(row.scores) != wanted:
                raise UserError(
                    f"Detector '{row.detector}' has {len(row.scores)} scores on '{row.dataset}'"
                    f"{_in_run(row.run)} where others have {wanted}: all detectors must score the "
                    "same samples."
                )
        if self.same_samples:
            first: dict[str, tuple[str, int]] = {}
            for (run, dataset), size in self._sizes.items():
                other, known = first.setdefault(dataset, (run, size))
                if known != size:
                    raise UserError(
                        f"'{dataset}' has {known} samples in run '{other}' but {size} in run "
                        f"'{run}': say same_samples=False if they differ."
                    )

    @cached_property
    def _sizes(self) -> dict[tuple[str, str], int]:
        sizes: dict[tuple[str, str], int] = {}
        for row in self.rows:
            sizes.setdefault((row.run, row.dataset), len(row.scores))
        return sizes

    @cached_property
    def _index(self) -> dict[Cell, ScoreRow]:
        return {(row.run, row.detector, row.setting, row.dataset): row for row in self.rows}

    @cached_property
    def _defaults(self) -> dict[tuple[str, str, str], ScoreRow]:
        return {(row.run, row.detector, row.dataset): row for row in self.rows if row.default}

    @cached_property
    def outliers_by_setting(self) -> Mapping[str, str]:
        """Settings that were fitted with an outlier set -> its name."""
        return {row.setting: row.learned_from for row in self.rows if row.learned_from}

    @property
    def fitted_on_outliers(self) -> tuple[str, ...]:
        """Detectors that were fitted with outliers, too, of the sets that they are scored on."""
        return tuple(dict.fromkeys(row.detector for row in self.rows if row.learned_from))

    @property
    def factor_names(self) -> tuple[str, ...]:
        """What the runs differ in."""
        return names(self.factors)

    @cached_property
    def detectors(self) -> tuple[str, ...]:
        """Detectors, in the order of their first row."""
        return tuple(dict.fromkeys(row.detector for row in self.rows))

    @cached_property
    def ood(self) -> tuple[str, ...]:
        """Outlier sets, in the order of their first row; without what a search has found."""
        named = dict.fromkeys(row.dataset for row in self.rows)
        return tuple(name for name in named if self.sets[name].role == "ood")

    def scores(self, run: str, detector: str, dataset: str) -> NDArray[np.float64] | None:
        """Scores at the setting that represents the detector, or None where they are missing."""
        row = self._defaults.get((run, detector, dataset))
        return None if row is None else row.scores

    def pairs(self, *, defaults_only: bool = True) -> Iterable[tuple[ScoreRow, ScoreRow]]:
        """Each row of an outlier set with the row of the same detector on the ID set."""
        for row in self.rows:
            is_outliers = self.sets[row.dataset].role == "ood"
            if not is_outliers or (defaults_only and not row.default):
                continue
            reference = self._index.get((row.run, row.detector, row.setting, self.id))
            if reference is not None:
                yield reference, row

    def summary(
        self,
        *,
        defaults_only: bool = True,
        level: float = 0.95,
        rng: np.random.Generator | None = None,
        resamples: int = 200,
    ) -> pd.DataFrame:
        """One line per run, detector, setting and outlier set: every metric with its interval.

        AUROC's interval is DeLong's; the others come from a stratified bootstrap.
        """
        import pandas as pd

        rng = np.random.default_rng(0) if rng is None else rng
        lines = []
        for reference, row in self.pairs(defaults_only=defaults_only):
            line: dict[str, Level] = {"run": row.run} if len(self.runs) > 1 else {}
            line |= self.runs[row.run]
            line |= {"detector": row.detector, "setting": row.setting, "ood": row.dataset}
            estimates = metrics.estimate_all(
                reference.scores, row.scores, level=level, rng=rng, resamples=resamples
            )
            for name, estimate in estimates.items():
                line |= {
                    name: estimate.value,
                    f"{name}_low": estimate.low,
                    f"{name}_high": estimate.high,
                }
            lines.append(line)
        return pd.DataFrame(lines)


def _in_run(run: str) -> str:
    return f" in run '{run}'" if run else ""


def _frozen(runs: Mapping[str, Mapping[str, Level]]) -> Mapping[str, Mapping[str, Level]]:
    return MappingProxyType({run: MappingProxyType(dict(levels)) for run, levels in runs.items()})


def validation_half(samples: int) -> NDArray[np.bool_]:
    """Which of `samples` samples may be learned from; the others are for testing only.

    Seeded by nothing but their number, so that whoever chooses thresholds or settings, and whoever
    learns from outliers, keeps to the same halves. An odd sample out is for testing.

    >>> validation_half(6).sum(), validation_half(1).tolist()
    (np.int64(3), [False])
    """
    if samples < 0:
        raise UserError(f"samples must not be negative, got {samples}.")
    # The raw stream of a bit generator is promised to stay the same in every version of NumPy.
    order = np.argsort(np.random.PCG64(samples).random_raw(samples), kind="stable")
    half = np.zeros(samples, dtype=np.bool_)
    half[order[: samples // 2]] = True
    return half


def join_runs(tables: Mapping[str, ScoreTable], factor: str) -> ScoreTable:
    """Put tables of single training runs into one; `factor` is what their repeats are called."""
    ids = {table.id for table in tables.values()}
    if len(ids) != 1:
        raise UserError(f"The runs have different in-distribution sets: {', '.join(sorted(ids))}.")
    return ScoreTable(
        ids.pop(),
        tuple(replace(row, run=run) for run, table in tables.items() for row in table.rows),
        {run: {factor: run} for run in tables},
        tuple(replace(part, run=run) for run, table in tables.items() for part in table.missing),
        {run: table.correct[""] for run, table in tables.items() if "" in table.correct},
        chance={run: table.chance[""] for run, table in tables.items() if "" in table.chance},
        factors=(Factor(factor, "repeat"),),
        sets={name: info for table in tables.values() for name, info in table.sets.items()},
    )
