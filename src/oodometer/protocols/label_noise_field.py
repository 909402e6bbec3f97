"""Values under label noise: four questions to every detector, in every run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError, unknown
from oodometer.metrics import auroc
from oodometer.results import Results
from oodometer.scores import ScoreTable

if TYPE_CHECKING:
    import pandas as pd

QUESTIONS = {
    "auroc": "ID against OOD",
    "correct_auroc": "correctly classified ID against OOD",
    "incorrect_auroc": "misclassified ID against OOD",
    "failure_auroc": "correctly classified against misclassified ID",
}
NOISE_FACTORS = ("label_noise", "training_dataset", "noise", "noise_type", "labels", "train_labels",
                 "noise_rate")  # fmt: skip
_CLEAN = re.compile(r"none|clean|0(\.0*)?%?|no noise")


@dataclass(frozen=True, eq=False)
class NoiseField:
    """A line per run and detector: the median over outlier sets of each question, and accuracy."""

    noise: str  # the factor
    clean: str | None  # its level without noise
    levels: tuple[str, ...]  # clean first
    detectors: tuple[str, ...]
    others: tuple[str, ...]  # the other factors
    questions: tuple[str, ...]  # those of QUESTIONS that can be answered
    frame: pd.DataFrame  # detector, factors, questions (median), "mean auroc", accuracy if known
    sets: int
    has_accuracy: bool

    @cached_property
    def noisy(self) -> tuple[str, ...]:
        """Levels with noise."""
        return tuple(level for level in self.levels if level != self.clean)

    def values(self, detector: str, level: str, question: str = "auroc") -> NDArray[np.float64]:
        """One value per run at this level."""
        part = self._parts.get((detector, level))
        if part is None:
            return np.empty(0)
        known: NDArray[np.float64] = part[question].dropna().to_numpy(dtype=float)
        return known

    @cached_property
    def _parts(self) -> dict[tuple[str, str], pd.DataFrame]:
        return {
            (str(key[0]), str(key[1])): part
            for key, part in self.frame.groupby(["detector", self.noise], sort=False)
        }

    def paired(
        self, detector: str, one: str, other: str, question: str = "auroc"
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Values of runs that differ in the noise alone, in the same order."""
        own = self.frame[self.frame["detector"] == detector]
        keys = [*self.others, "detector"]  # the detector is the same: a key where nothing else is
        table = own.pivot_table(index=keys, columns=self.noise, values=question)
        if one not in table or other not in table:
            return np.empty(0), np.empty(0)
        both = table[[one, other]].dropna().to_numpy(dtype=float)
        return both[:, 0].copy(), both[:, 1].copy()


def noise_factor(factors: Sequence[str], wanted: str | None = None) -> str:
    """Find the factor that tells which labels a run was trained on."""
    if wanted is not None:
        if wanted not in factors:
            raise unknown("factor", wanted, factors)
        return wanted
    for name in NOISE_FACTORS:
        if name in factors:
            return name
    raise UserError(
        "No factor tells which labels a run was trained on (such as label_noise); the factors are "
        f"{', '.join(factors) or 'none'}."
    )


def of_scores(table: ScoreTable) -> dict[str, Results]:
    """Answer the four questions from scores; those about errors need to know which were made."""
    import pandas as pd

    lines: dict[str, list[dict[str, object]]] = {name: [] for name in QUESTIONS}
    for reference, row in table.pairs():
        right = table.correct.get(row.run)
        about: dict[str, object] = {"detector": row.detector, "id": table.id, "ood": row.dataset}
        about |= table.runs[row.run]
        if right is not None:
            about["accuracy"] = float(right.mean())
        lines["auroc"].append(about | {"value": auroc(reference.scores, row.scores)})
        if right is None or right.all() or not right.any():
            continue
        correct, wrong = reference.scores[right], reference.scores[~right]
        lines["correct_auroc"].append(about | {"value": auroc(correct, row.scores)})
        lines["incorrect_auroc"].append(about | {"value": auroc(wrong, row.scores)})
        lines["failure_auroc"].append(about | {"value": auroc(correct, wrong)})
    factors = tuple(dict.fromkeys(name for levels in table.runs.values() for name in levels))
    missing = tuple(part for part in table.missing if not part.setting)
    return {
        name: Results(pd.DataFrame(rows), factors, name, missing=missing)
        for name, rows in lines.items()
        if rows
    }


def noise_field(tables: Mapping[str, Results], noise: str | None = None) -> NoiseField:
    """Reduce each run to its median over outlier sets, for every question."""
    if "auroc" not in tables:
        raise unknown("metric that label noise needs", "auroc", tables)
    factor = noise_factor(tables["auroc"].factors, noise)
    tables = {name: _without_id(table, factor) for name, table in tables.items()}
    main = tables["auroc"]
    others = tuple(name for name in main.factors if name != factor)
    if "id" in main.frame.columns and len(set(main.frame["id"])) > 1:
        others = (*others, "id")
    keys = ["detector", factor, *others]
    grouped = main.frame.groupby(keys, sort=False)["value"]
    frame = grouped.median().rename("auroc").to_frame()
    frame["mean auroc"] = grouped.mean()
    for name in QUESTIONS:
        if name != "auroc" and name in tables:
            frame[name] = tables[name].frame.groupby(keys, sort=False)["value"].median()
    accuracy = "accuracy" in main.frame.columns
    if accuracy:
        frame["accuracy"] = main.frame.groupby(keys, sort=False)["accuracy"].mean()
    frame = frame.reset_index()
    frame[factor] = frame[factor].astype(str)
    levels = list(dict.fromkeys(frame[factor]))
    clean = _clean_level(main, factor, levels)
    if clean is not None:
        levels = [clean, *(level for level in levels if level != clean)]
    return NoiseField(
        noise=factor,
        clean=clean,
        levels=tuple(levels),
        detectors=main.detectors,
        others=others,
        questions=tuple(name for name in QUESTIONS if name in frame.columns),
        frame=frame,
        sets=len(main.ood),
        has_accuracy=accuracy,
    )


def _without_id(table: Results, factor: str) -> Results:
    """Name labels by their noise alone where they begin with the name of the ID set.

    The labels cifar10n_agg of cifar10 become n_agg, and cifar10 itself is clean.
    """
    frame = table.frame
    if "id" not in frame.columns or factor not in frame.columns:
        return table
    pairs = frame[[factor, "id"]].drop_duplicates().astype(str).to_numpy().tolist()
    own = {level: level.removeprefix(name).strip("_- ") or "clean" for level, name in pairs}
    begins = all(level.startswith(name) for level, name in pairs)
    if not begins or "clean" not in own.values() or len({*own.values()}) < 2:
        return table
    distinct = {(own[level], name) for level, name in pairs}
    if len(distinct) < len(pairs):
        return table
    return replace(table, frame=frame.assign(**{factor: frame[factor].astype(str).map(own)}))


def _clean_level(main: Results, factor: str, levels: Sequence[str]) -> str | None:
    """Find the level without noise: by its name, or by a noise rate of 0."""
    named = [level for level in levels if _CLEAN.fullmatch(level.strip().casefold())]
    if len(named) == 1:
        return named[0]
    if "noise_rate" in main.frame.columns:
        still = main.frame.loc[main.frame["noise_rate"] == 0, factor].astype(str)
        without = list(dict.fromkeys(still))
        if len(without) == 1:
            return without[0]
    return None
