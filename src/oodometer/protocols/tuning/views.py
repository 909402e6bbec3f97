"""Tables and pictures of what tuning does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from oodometer.calls import setting_text
from oodometer.finding import Series, Table, TableCell, Value
from oodometer.metrics import Estimate
from oodometer.protocols.common.differences import Paired, paired_interval
from oodometer.protocols.common.views import interval_series, mean_share
from oodometer.protocols.common.words import LEVEL, count
from oodometer.protocols.tuning.cases import TunedDetector, TuningCases
from oodometer.scores import Level
from oodometer.stats.comparison import Difference, auroc_difference, mean_auroc

FEW_LINES = 6  # in a panel
WIDE = 100.0  # times the smallest: then the axis is logarithmic
CHOICES = {"default": "default", "tuned": "tuned on other outliers", "oracle": "chosen on the test"}


def gain_table(cases: TuningCases, differences: Mapping[str, Difference]) -> Table:
    """AUROC of every choice, what tuning gains, and what only the test outliers would promise."""
    rows: list[tuple[TableCell, ...]] = []
    for detector in sorted(cases.detectors, key=lambda d: -d.mean(d.tuned)):
        gain = differences[detector.name]
        optimism = _optimism(cases, detector)
        # It is no less than 0, and no more than 1.
        optimism = optimism._replace(low=max(0.0, optimism.low), high=min(1.0, optimism.high))
        rows.append(
            (
                detector.name,
                len(detector.curve),
                *(detector.mean(getattr(detector, choice)) for choice in CHOICES),
                gain.estimate,
                gain.p_value,
                optimism,
            )
        )
    return Table(
        "gains",
        f"AUROC by choice of setting, mean over {count(cases.count, cases.case)}",
        ("detector", "settings", *CHOICES.values(), "gain of tuning", "adjusted p",
         "optimism"),
        tuple(rows),
        "Gain: tuned − default. Optimism: extra gain from tuning on the test outliers. 95% "
        "confidence intervals"
        + ("." if cases.are_runs else ", for other samples and this training run."),
    )  # fmt: skip


def _optimism(cases: TuningCases, detector: TunedDetector) -> Estimate:
    """What tuning on the test outliers promises beyond honest tuning."""
    if not detector.samples:
        return paired_interval(Paired(detector.oracle, detector.tuned, cases.units))
    samples = detector.samples
    return Estimate(*auroc_difference(samples["oracle"], samples["tuned"], LEVEL)[:3])


def choice_table(cases: TuningCases) -> Table:
    """Which setting is chosen, and how often."""
    rows: list[tuple[TableCell, ...]] = []
    for detector in cases.detectors:
        times = len(detector.choices)
        cells: list[TableCell] = [detector.usual("default")[0]]
        for choice in ("tuned", "oracle"):
            setting, often = detector.usual(choice)
            cells += [setting, f"{often} of {times}"]
        rows.append((detector.name, *cells))
    return Table(
        "choices",
        "The setting that is chosen most often",
        ("detector", "default", "tuned", "times", "best on the test", "times there"),
        tuple(rows),
        "A case is a run and a test set.",
    )


def gains(cases: TuningCases) -> Series:
    """AUROC of every detector by choice of setting."""
    return interval_series(
        "gains",
        "AUROC by choice of setting",
        f"Mean AUROC over {count(cases.count, cases.case)} with 95% confidence interval, for "
        f"{count(len(cases.detectors), 'detector')}: default, tuned on other outliers, chosen on "
        "the test.",
        "AUROC",
        [
            (
                detector.name,
                group,
                mean_share(getattr(detector, choice), cases.units)
                if cases.are_runs
                else mean_auroc(detector.samples[choice], LEVEL),
            )
            for choice, group in CHOICES.items()
            for detector in cases.detectors
        ],
    )


def curves(cases: TuningCases) -> list[Series]:
    """AUROC against the number that a grid varies, a line per combination of its other settings."""
    points: list[Mapping[str, Value]] = []
    for detector in cases.detectors:
        lines = _lines(detector)
        if lines is None:
            continue
        points += [
            {
                "label": label or detector.name,
                "panel": f"{detector.name}: {lines.name}",
                "x": x,
                "value": detector.mean(detector.curve[setting]),
            }
            for label, places in lines.places.items()
            for x, setting in sorted((x, setting) for setting, x in places.items())
        ]
    if not points:
        return []
    return [
        Series(
            "lines",
            "sensitivity",
            "AUROC over the grid",
            "Mean AUROC over runs and outlier sets against a number of the grid; one panel per "
            "detector, one line per combination of its other settings.",
            "AUROC",
            tuple(points),
        )
    ]


def setting_intervals(cases: TuningCases) -> list[Series]:
    """AUROC of every setting, a picture per detector whose grid has no line."""
    return [
        interval_series(
            f"settings-{detector.name}",
            f"AUROC of every setting of {detector.name}",
            "Mean AUROC over outlier sets, with 95% confidence interval over training runs where "
            "there are several.",
            "AUROC",
            [
                (
                    setting_text(values) or setting or "(none)",
                    "mean over runs",
                    mean_share(detector.curve[setting], cases.units),
                )
                for setting, values in _varied(detector).items()
            ],
            roles={},
        )
        for detector in cases.detectors
        if _lines(detector) is None
    ]


class _Lines(NamedTuple):
    """A grid as lines: what is varied along them, and where each setting lies."""

    name: str
    places: Mapping[str, Mapping[str, float]]  # the other settings -> setting -> x


def _varied(detector: TunedDetector) -> dict[str, dict[str, Level]]:
    """The values of each setting, without those that are the same over the whole grid."""
    grid = detector.settings
    names = dict.fromkeys(name for values in grid.values() for name in values)
    varied = [name for name in names if len({values.get(name) for values in grid.values()}) > 1]
    return {s: {n: values[n] for n in varied if n in values} for s, values in grid.items()}


def _lines(detector: TunedDetector) -> _Lines | None:
    """Find the number that a grid varies most, at three places or more, on a few lines."""
    grid = _varied(detector)
    numbers: dict[str, dict[str, float]] = {}
    for name in dict.fromkeys(name for values in grid.values() for name in values):
        along = {
            setting: float(values[name])
            for setting, values in grid.items()
            if isinstance(values.get(name), int | float)
        }
        if len(along) == len(grid) and len(set(along.values())) > 2:
            numbers[name] = along
    if not numbers:
        return None
    name = max(numbers, key=lambda name: len(set(numbers[name].values())))
    along = numbers[name]
    if min(along.values()) > 0 and max(along.values()) >= WIDE * min(along.values()):
        shown = f"logarithm (base 10) of {name}"
        along = {setting: float(np.log10(x)) for setting, x in along.items()}
    else:
        shown = name
    places: dict[str, dict[str, float]] = {}
    for setting, values in grid.items():
        label = setting_text({n: value for n, value in values.items() if n != name})
        places.setdefault(label, {})[setting] = along[setting]
    return _Lines(shown, places) if len(places) <= FEW_LINES else None
