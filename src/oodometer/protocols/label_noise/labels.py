"""What the levels of a factor say about the labels that runs were trained on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from oodometer.errors import UserError, unknown
from oodometer.factors import LABELS, first_titled
from oodometer.results import NOT_GIVEN, Results

_NUMBER = re.compile(r"\d*\.?\d+%?")
_CLEAN = re.compile(r"none|clean|0(\.0*)?%?|no noise")
# In this order: "asymm" holds "symm". Names of studies here, and of the published files.
_KINDS = {
    "class-conditional": re.compile(r"class_conditional|asymm|\bscc\b|_scc|scc_"),
    "uniform": re.compile(r"uniform|symm|\bsu\b|_su(_|$)|^su_"),
    "pair": re.compile(r"\bpair"),
    "human": re.compile(r"^file\(|human|real|\bn\b|^n_|_n(_|$)"),
}


class Labels(NamedTuple):
    """What kind of labels a level stands for, as far as its name or its rate tells."""

    kind: str
    rate: float | None
    source: str | None  # the human labels that the noise was taken from, or copies the counts of


def labels_of(level: str, rate: float | None) -> Labels:
    """The kind, rate and source of a level's noise; `rate`: what a column of the table says."""
    name = level.casefold()
    kind = next((kind for kind, words in _KINDS.items() if words.search(name)), "other")
    stated = re.search(r"\brate=([0-9.]+)", name)
    if rate is None and stated:
        rate = float(stated[1])
    file = re.search(r"\bkey=([^,)]+)", level) or re.search(r"\bpath=([^,)]+)", level)
    tail = re.search(r"_([a-z0-9]+)$", name)  # n_worse, symm_worse, asymm_worse
    source = file[1] if file else tail[1] if tail and "(" not in name else None
    return Labels(kind, rate, source)


def noise_factor(factors: Sequence[str], wanted: str | None = None) -> str:
    """Find the factor that tells which labels a run was trained on."""
    if wanted is not None:
        if wanted not in factors:
            raise unknown("factor", wanted, factors)
        return wanted
    named = first_titled(factors, LABELS)
    if named is None:
        raise UserError(
            "No factor tells which labels a run was trained on (such as label_noise); the factors "
            f"are {', '.join(factors) or 'none'}."
        )
    return named


def are_rates(factor: str, levels: Sequence[str]) -> bool:
    """Whether levels are noise rates, and not names of labels: 0 and 1 may be numbers of labels.

    >>> are_rates("label_noise", ["0", "0.2"]), are_rates("label_noise", ["0", "1"])
    (True, False)
    """
    if not all(_NUMBER.fullmatch(level) for level in levels):
        return False
    return "rate" in factor.casefold() or any(set(level) & {".", "%"} for level in levels)


def _rate(level: str) -> float:
    """A share, also of a percentage."""
    value = float(level.removesuffix("%"))
    return value / 100 if level.endswith("%") or value > 1 else value


def with_given_labels(table: Results, factor: str) -> Results | None:
    """Leave out rows that do not say which labels the run was trained on: they may be clean."""
    levels = table.frame[factor]
    given = levels.notna() & (levels != NOT_GIVEN)
    return replace(table, frame=table.frame[given]) if given.any() else None


def noise_rates(main: Results, factor: str) -> dict[str, float]:
    """Noise rate of each level, where a column tells one that does not vary within it."""
    levels: list[str] = main.frame[factor].astype(str).unique().tolist()
    if are_rates(factor, levels):
        return {level: _rate(level) for level in levels}
    if "noise_rate" not in main.frame.columns:
        return {}
    known = main.frame.assign(level=main.frame[factor].astype(str)).groupby("level")["noise_rate"]
    return {
        str(level): float(part.iloc[0])
        for level, part in known
        if part.notna().all() and part.min() == part.max()
    }


def without_id(table: Results, factor: str) -> Results:
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


def clean_level(main: Results, factor: str) -> str | None:
    """Find the level without noise: by its name, or by a noise rate of 0."""
    levels: list[str] = main.frame[factor].astype(str).unique().tolist()
    named = [level for level in levels if _CLEAN.fullmatch(level.strip().casefold())]
    if len(named) == 1:
        return named[0]
    if "noise_rate" in main.frame.columns:
        still = main.frame.loc[main.frame["noise_rate"] == 0, factor].astype(str)
        without = list(dict.fromkeys(still))
        if len(without) == 1:
            return without[0]
    return None
