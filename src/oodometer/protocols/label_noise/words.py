"""What readers call the labels of a level, several of them, and the value of a run."""

from __future__ import annotations

from oodometer.protocols.common.words import count
from oodometer.protocols.label_noise.cases import NoiseCases
from oodometer.protocols.label_noise.labels import are_rates


def area(cases: NoiseCases, *, begins: bool = False) -> str:
    """What represents a run: the median over outlier sets, or the value of a single one."""
    return f"{'Median' if begins else 'median'} AUROC" if cases.sets > 1 else "AUROC"


def over_sets(cases: NoiseCases) -> str:
    """The same, at the beginning of a description of values over runs."""
    return f"Median over {cases.sets} outlier sets, mean" if cases.sets > 1 else "Mean"


def by_median(cases: NoiseCases, text: str) -> str:
    """Say that a sentence is about medians: by the mean, another detector may be the best."""
    return f"By {area(cases)}, {text[0].lower()}{text[1:]}" if cases.sets > 1 else text


def any_of_kinds(cases: NoiseCases, many: int, whole: int) -> str:
    """How many of the levels, behind "not"; for all, "any"."""
    one, several = kind_of_labels(cases)
    return f"any {one}" if many == whole else f"{many} of {whole} {several}"


def labels(cases: NoiseCases, level: str) -> str:
    """Name the labels of a level, behind "with"."""
    return f"labels at {cases.noise} {level}" if _has_rates(cases) else f"{level} labels"


def kinds_of_noise(cases: NoiseCases) -> str:
    """How many levels have noise: rates are no kinds of it."""
    one, several = ("noise rate", "") if _has_rates(cases) else ("kind of noise", "kinds of noise")
    return count(len(cases.noisy), one, several)


def kind_of_labels(cases: NoiseCases) -> tuple[str, str]:
    """The word for a level, and for several."""
    if _has_rates(cases):
        return "noise rate", "noise rates"
    return "kind of labels", "kinds of labels"


def _has_rates(cases: NoiseCases) -> bool:
    return are_rates(cases.noise, cases.levels)
