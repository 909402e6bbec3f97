"""Tables and pictures of what tuning does."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from oodometer.finding import Series, Table, TableCell, Value
from oodometer.metrics import Estimate
from oodometer.metrics.counts import Floats
from oodometer.protocols.tuning_field import TunedDetector, TuningField
from oodometer.protocols.words import LEVEL, count
from oodometer.stats.comparison import Difference
from oodometer.stats.intervals import runs_interval

CHOICES = {"default": "default", "tuned": "tuned on other outliers", "oracle": "chosen on the test"}


def gain_table(
    field: TuningField, differences: Mapping[str, Difference], rng: np.random.Generator
) -> Table:
    """AUROC of every choice, what tuning gains, and what only the test would promise."""
    rows: list[tuple[TableCell, ...]] = []
    for detector in sorted(field.detectors, key=lambda d: -float(d.tuned.mean())):
        gain = differences[detector.name]
        optimism = _estimate(detector.oracle - detector.tuned, rng, (-1.0, 1.0))
        rows.append(
            (
                detector.name,
                len(detector.curve),
                *(float(getattr(detector, choice).mean()) for choice in CHOICES),
                gain.value if field.units < 2 else Estimate(*gain[:3]),
                gain.p_value,
                optimism.value if field.units < 2 else optimism,
            )
        )
    return Table(
        "gains",
        f"AUROC by choice of setting, mean over {count(field.units, field.unit)}",
        ("detector", "settings", *CHOICES.values(), "gain of tuning", "adjusted p",
         "further promise"),
        tuple(rows),
        "Gain: tuned less default. Further promise: what choosing on the test outliers themselves "
        "would add to that, and nobody gets. 95 % intervals.",
    )  # fmt: skip


def choice_table(field: TuningField) -> Table:
    """Which setting is chosen, and how often."""
    rows: list[tuple[TableCell, ...]] = []
    for detector in field.detectors:
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


def gains(field: TuningField, rng: np.random.Generator) -> Series:
    """AUROC of every detector by choice of setting."""
    points: list[Mapping[str, Value]] = [
        {"label": detector.name, "group": told, **_point(getattr(detector, choice), rng)}
        for choice, told in CHOICES.items()
        for detector in field.detectors
    ]
    return Series(
        "intervals",
        "gains",
        "AUROC by choice of setting",
        f"Mean AUROC with 95 % interval over {count(field.units, field.unit)}, for "
        f"{count(len(field.detectors), 'detector')}: default, tuned on other outliers, chosen on "
        "the test.",
        "AUROC",
        tuple(points),
    )


def curves(field: TuningField) -> list[Series]:
    """AUROC against the one number that a grid varies."""
    points: list[Mapping[str, Value]] = []
    for detector in field.detectors:
        varied = _varied_number(detector)
        if varied is None:
            continue
        name, places = varied
        points += [
            {
                "label": detector.name,
                "panel": f"{detector.name}: {name}",
                "x": x,
                "value": float(detector.curve[setting].mean()),
            }
            for x, setting in sorted((x, setting) for setting, x in places.items())
        ]
    if not points:
        return []
    return [
        Series(
            "lines",
            "sensitivity",
            "AUROC over the grid",
            "Mean AUROC over runs and outlier sets against the setting, where a grid varies one "
            "number; one panel per detector.",
            "AUROC",
            tuple(points),
        )
    ]


def setting_intervals(field: TuningField, rng: np.random.Generator) -> list[Series]:
    """AUROC of every setting, a picture per detector whose grid is no line."""
    found = []
    for detector in field.detectors:
        if _varied_number(detector) is not None:
            continue
        points: list[Mapping[str, Value]] = [
            {"label": setting or "(none)", "group": "all runs", **_point(values, rng)}
            for setting, values in detector.curve.items()
        ]
        found.append(
            Series(
                "intervals",
                f"settings-{detector.name}",
                f"AUROC of every setting of {detector.name}",
                f"Mean AUROC over outlier sets, with 95 % interval over {count(field.runs, 'run')} "
                "where there are several.",
                "AUROC",
                tuple(points),
            )
        )
    return found


def _varied_number(detector: TunedDetector) -> tuple[str, dict[str, float]] | None:
    """Find the one setting that a grid varies, if it is a number at three places or more."""
    parts = {
        setting: dict(pair.split("=", 1) for pair in setting.split(", ") if "=" in pair)
        for setting in detector.curve
    }
    names = dict.fromkeys(name for part in parts.values() for name in part)
    varied = [name for name in names if len({part.get(name) for part in parts.values()}) > 1]
    if len(varied) != 1:
        return None
    try:
        places = {setting: float(part[varied[0]]) for setting, part in parts.items()}
    except (KeyError, ValueError):
        return None
    finite = len(places) > 2 and bool(np.isfinite(list(places.values())).all())
    return (varied[0], places) if finite else None


def _point(values: Floats, rng: np.random.Generator) -> dict[str, float | None]:
    found = _estimate(values, rng, (0.0, 1.0))
    alone = len(values) < 2  # one case has no interval
    return {
        "value": found.value,
        "low": None if alone else found.low,
        "high": None if alone else found.high,
    }


def _estimate(values: Floats, rng: np.random.Generator, bounds: tuple[float, float]) -> Estimate:
    found = runs_interval(values, rng=rng, level=LEVEL, bounds=bounds)
    return Estimate(found.value, found.low, found.high)
