"""Values under label noise: four questions to every detector, in every run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from oodometer.errors import UserError, unknown
from oodometer.factors import Factor, names
from oodometer.finding import Value
from oodometer.metrics import auroc
from oodometer.metrics.counts import Floats
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
# In this order: "asymm" holds "symm". Names of studies here, and of the published files.
_KINDS = {
    "class-conditional": re.compile(r"class_conditional|asymm|\bscc\b|_scc|scc_"),
    "uniform": re.compile(r"uniform|symm|\bsu\b|_su(_|$)|^su_"),
    "pair": re.compile(r"\bpair"),
    "human": re.compile(r"^file\(|human|real|\bn\b|^n_|_n(_|$)"),
}


Runs = dict[tuple[Value, ...], float]  # levels of a run's factors -> its value


class Labels(NamedTuple):
    """What kind of labels a level stands for, as far as its name or its rate tells."""

    kind: str
    rate: float | None
    source: str | None  # the human labels that the noise was taken from, or copies the counts of


@dataclass(frozen=True, eq=False)
class NoiseField:
    """A line per run and detector: the median over outlier sets of each question, and accuracy."""

    noise: str  # the factor
    clean: str | None  # its level without noise
    levels: tuple[str, ...]  # clean first
    detectors: tuple[str, ...]
    others: tuple[str, ...]  # the other factors
    factors: tuple[Factor, ...]  # all of them, with their kinds
    questions: tuple[str, ...]  # those of QUESTIONS that can be answered
    frame: pd.DataFrame  # detector, factors, questions (median), "mean auroc", accuracy if known
    sets: int
    has_accuracy: bool
    rates: Mapping[str, float]  # of levels, where a column tells

    @cached_property
    def noisy(self) -> tuple[str, ...]:
        """Levels with noise."""
        return tuple(level for level in self.levels if level != self.clean)

    @property
    def runs(self) -> int:
        """How many runs have a value."""
        return len(self.frame.drop_duplicates([self.noise, *self.others]))

    @property
    def re_evaluations(self) -> tuple[str, ...]:
        """Factors whose levels evaluate the same training run."""
        return names(self.factors, "re_evaluation")

    @property
    def trained(self) -> list[str]:
        """Factors other than the noise that make another training."""
        return [name for name in self.others if name not in self.re_evaluations]

    @cached_property
    def trainings(self) -> pd.DataFrame:
        """A line per training and detector: means over checkpoints and other looks at it."""
        keys = ["detector", self.noise, *self.trained]
        numbers = [name for name in self.frame.columns if name not in (*keys, *self.others)]
        return self.frame.groupby(keys, sort=False)[numbers].mean().reset_index()

    def values(self, detector: str, level: str, question: str = "auroc") -> Floats:
        """One value per training at this level."""
        own = self.runs_of(detector, level, question)
        return self._pairs(own, own, self.others)[0]

    def run_values(self, detector: str, level: str, question: str = "auroc") -> Floats:
        """One value per run at this level: checkpoints of one training are several."""
        return np.array(list(self.runs_of(detector, level, question).values()))

    def runs_of(self, detector: str, level: str, question: str = "auroc") -> Runs:
        """The value of each run at a level, by the levels of its other factors."""
        return self._known.get((question, detector, level), {})

    @cached_property
    def _known(self) -> dict[tuple[str, str, str], Runs]:
        known: dict[tuple[str, str, str], Runs] = {}
        columns = [name for name in (*self.questions, "mean auroc") if name in self.frame.columns]
        keys = list(self.frame[list(self.others)].itertuples(index=False, name=None))
        places = zip(self.frame["detector"], self.frame[self.noise], keys, strict=True)
        values = self.frame[columns].to_numpy(dtype=float).tolist()
        for (detector, level, key), line in zip(places, values, strict=True):
            for name, value in zip(columns, line, strict=True):
                if value == value:  # not missing
                    known.setdefault((name, detector, level), {})[key] = value
        return known

    def paired(
        self, detector: str, one: str, other: str, question: str = "auroc"
    ) -> tuple[Floats, Floats]:
        """Values of trainings that differ in the noise alone, in the same order."""
        first, second = (self.runs_of(detector, level, question) for level in (one, other))
        return self._pairs(first, second, self.others)

    def versus(
        self, one: str, other: str, level: str, question: str = "auroc"
    ) -> tuple[Floats, Floats]:
        """Values of two detectors in the same trainings at one level of the noise."""
        first, second = (self.runs_of(detector, level, question) for detector in (one, other))
        return self._pairs(first, second, self.others)

    def chosen(
        self, detector: str, factor: str, one: Value, other: Value, levels: Sequence[str]
    ) -> tuple[Floats, Floats]:
        """Values under two levels of another factor, all else being the same."""
        place = self.others.index(factor)
        found: dict[Value, Runs] = {one: {}, other: {}}
        for level in levels:
            for key, value in self.runs_of(detector, level).items():
                found[key[place]][level, *key[:place], *key[place + 1 :]] = value
        rest = [name for name in self.others if name != factor]
        return self._pairs(found[one], found[other], [self.noise, *rest])

    def overall_noise(self, one: str, other: str) -> tuple[Floats, Floats]:
        """Means over detectors of trainings that differ in the noise alone."""
        return _mean_pairs([self.paired(name, one, other) for name in self.detectors])

    def overall_choice(
        self, factor: str, one: Value, other: Value, levels: Sequence[str]
    ) -> tuple[Floats, Floats]:
        """Means over detectors under two levels of another factor, all else being the same."""
        pairs = [self.chosen(name, factor, one, other, levels) for name in self.detectors]
        return _mean_pairs(pairs)

    def _pairs(self, first: Runs, second: Runs, columns: Sequence[str]) -> tuple[Floats, Floats]:
        """One mean per training of runs that both have; `columns` are the factors of their keys."""
        outer = [place for place, name in enumerate(columns) if name not in self.re_evaluations]
        trainings: dict[tuple[Value, ...], list[tuple[float, float]]] = {}
        for key, value in first.items():
            if key in second:
                own = tuple(key[place] for place in outer)
                trainings.setdefault(own, []).append((value, second[key]))
        means = np.array([np.mean(looks, axis=0) for looks in trainings.values()]).reshape(-1, 2)
        return means[:, 0].copy(), means[:, 1].copy()

    def labels(self, level: str) -> Labels:
        """The kind, rate and source of a level's noise."""
        if level == self.clean:
            return Labels("clean", 0.0, None)
        name = level.casefold()
        kind = next((kind for kind, words in _KINDS.items() if words.search(name)), "other")
        stated = re.search(r"\brate=([0-9.]+)", name)
        rate = self.rates.get(level, float(stated[1]) if stated else None)
        file = re.search(r"\bkey=([^,)]+)", level) or re.search(r"\bpath=([^,)]+)", level)
        tail = re.search(r"_([a-z0-9]+)$", name)  # n_worse, symm_worse, asymm_worse
        source = file[1] if file else tail[1] if tail and "(" not in name else None
        return Labels(kind, rate, source)


def _mean_pairs(pairs: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """The mean over detectors; those that lack a training that others have take no part."""
    most = max(len(first) for first, _ in pairs)
    whole = [pair for pair in pairs if len(pair[0]) == most]
    first, second = (np.mean([pair[side] for pair in whole], axis=0) for side in (0, 1))
    return first, second


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
    missing = tuple(part for part in table.missing if not part.setting)
    return {
        name: Results(pd.DataFrame(rows), table.factors, name, missing=missing)
        for name, rows in lines.items()
        if rows
    }


def noise_field(tables: Mapping[str, Results], noise: str | None = None) -> NoiseField:
    """Reduce each run to its median over outlier sets, for every question."""
    if "auroc" not in tables:
        raise unknown("metric that label noise needs", "auroc", tables)
    factor = noise_factor(tables["auroc"].factor_names, noise)
    tables = {name: _without_id(table, factor) for name, table in tables.items()}
    main = tables["auroc"]
    others = tuple(name for name in main.factor_names if name != factor)
    if "id" in main.frame.columns and len(set(main.frame["id"])) > 1:
        others = (*others, "id")
    keys = ["detector", factor, *others]
    grouped = main.frame.groupby(keys, sort=False)["value"]
    frame = grouped.median().rename("auroc").to_frame()
    frame["mean auroc"] = grouped.mean()
    for name in QUESTIONS:
        if name != "auroc" and name in tables:
            frame[name] = tables[name].frame.groupby(keys, sort=False)["value"].median()
    accuracy = "accuracy" in main.frame.columns and main.frame["accuracy"].notna().any()
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
        factors=main.factors,
        questions=tuple(name for name in QUESTIONS if name in frame.columns),
        frame=frame,
        sets=len(main.ood),
        has_accuracy=bool(accuracy),
        rates=_rates(main, factor),
    )


def _rates(main: Results, factor: str) -> dict[str, float]:
    """Noise rate of each level, where a column tells one that does not vary within it."""
    if "noise_rate" not in main.frame.columns or factor == "noise_rate":
        return {}
    known = main.frame.assign(level=main.frame[factor].astype(str)).groupby("level")["noise_rate"]
    return {
        str(level): float(part.iloc[0])
        for level, part in known
        if part.notna().all() and part.min() == part.max()
    }


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
