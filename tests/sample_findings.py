"""Findings to draw: one as rich as a real study, and the awkward ones."""

from __future__ import annotations

import random

from oodometer.finding import Claim, Finding, Series, Table, Value
from oodometer.metrics import Estimate

DETECTORS = (
    "relative_mahalanobis",
    "knn",
    "mahalanobis(space=logits)",
    "vim",
    "energy",
    "max_logit",
    "react",
    "ash",
    "dice",
    "gradnorm",
    "kl_matching",
    "odin",
    "max_softmax",
    "entropy",
    "residual",
    "monte_carlo_dropout(samples=32)",
    "temperature_scaling",
    "one_class_svm",
)
OUTLIER_SETS = ("rotated digits", "letters", "uniform noise", "inverted", "held-out classes 8, 9")
FACTORS: dict[str, tuple[Value, ...]] = {
    "optimizer": ("sgd", "adamw"),
    "augment": ("none", "shift", "shift+noise"),
    "seed": (0, 1, 2, 3, 4),
}
HOSTILE = "<script>alert(\"1\")</script> & 'x' | `y` [z](w) \x1b[31m\x00\u202e"


def ranking(
    detectors: tuple[str, ...] = DETECTORS,
    outlier_sets: tuple[str, ...] = OUTLIER_SETS,
    runs: int = 9,
    seed: int = 0,
) -> Finding:
    """Return what a study of many detectors, outlier sets and trainings might conclude."""
    rng = random.Random(seed)

    def auroc(rank: int, difficulty: int) -> float:
        base = 0.97 - 0.022 * rank - 0.04 * difficulty + rng.gauss(0, 0.03)
        return min(max(base, 0.42), 0.999)

    gaps = {(2, 2), (9, 4), (15, 1)}
    cells: dict[tuple[int, int], Estimate | None] = {}
    for row in range(len(detectors)):
        for column in range(len(outlier_sets)):
            value, half = auroc(row, column), 0.01 + 0.03 * rng.random()
            known = Estimate(value, max(value - half, 0), min(value + 0.8 * half, 1))
            cells[row, column] = None if (row, column) in gaps else known

    rows: list[tuple[str | Estimate | None, ...]] = []
    for row, name in enumerate(detectors):
        values = [cells[row, column] for column in range(len(outlier_sets))]
        known_values = [value for value in values if value is not None]
        mean = sum(value.value for value in known_values) / len(known_values)
        rows.append((name, Estimate(mean, mean - 0.018, mean + 0.016), *values))
    places = tuple(
        (name, max(0, 6 - 2 * row), row + 1.0 + rng.random(), f"{row + 1}–{row + 4}")
        for row, name in enumerate(detectors)
    )
    intervals = tuple(
        {
            "label": name,
            "group": group,
            "value": None if (cell := cells[row, column]) is None else cell.value,
            "low": None if cell is None else cell.low,
            "high": None if cell is None else cell.high,
        }
        for column, group in enumerate(outlier_sets)
        for row, name in enumerate(detectors)
    )
    ranks = tuple(
        {
            "row": name,
            "column": f"run {run}",
            "value": None if (row, run) in {(3, 4), (11, 7)} else 1 + (row + rng.randrange(4)) % 18,
        }
        for row, name in enumerate(detectors)
        for run in range(1, runs + 1)
    )
    strips = tuple(
        {
            "label": name,
            "panel": factor,
            "level": levels[run % len(levels)],
            "value": auroc(row, 2),
            "run": run,
        }
        for factor, levels in FACTORS.items()
        for row, name in enumerate(detectors)
        for run in range(runs)
    )
    return Finding(
        protocol="ranking",
        title="Does the ranking of detectors survive retraining?",
        question=(
            "If the same classifier is trained again with another seed, optimizer or augmentation, "
            "does the same detector come first?"
        ),
        claims=(
            Claim(
                "relative_mahalanobis is the best detector on average over all outlier sets.",
                "holds",
                "First of 18 in 8 of 9 trainings; mean AUROC 0.914 [0.896, 0.930], "
                "next 0.893 [0.875, 0.909].",
            ),
            Claim(
                "knn beats max_softmax on rotated digits.",
                "flips",
                "In 7 of 9 trainings; it loses in both trainings with shift+noise.",
            ),
            Claim(
                "energy is better than max_logit.",
                "undecided",
                "5 of 9 trainings; difference of mean AUROC 0.003 [-0.008, 0.014].",
            ),
        ),
        tables=(
            Table(
                "auroc",
                "AUROC per detector and outlier set",
                ("detector", "mean over outlier sets", *outlier_sets),
                tuple(rows),
                "Mean over trainings with a 95 % bootstrap interval.",
            ),
            Table(
                "first_places",
                "Places over 9 trainings",
                ("detector", "times first", "mean rank", "rank range"),
                places,
            ),
        ),
        series=(
            Series(
                "intervals",
                "auroc",
                "AUROC of each detector, per outlier set",
                "Dot: mean over 9 trainings; line: 95 % interval. Detectors by their mean.",
                "AUROC",
                intervals,
            ),
            Series(
                "heatmap",
                "rank",
                "Rank of each detector in each training",
                "1 is the best of 18. A row of one colour is a detector whose place is stable.",
                "rank",
                ranks,
            ),
            Series(
                "strips",
                "factors",
                "What moves a detector",
                "Each mark is one training; its row shows how far retraining moves a detector.",
                "mean AUROC",
                strips,
            ),
        ),
        caveats=(
            "Nine trainings on one data set of 1,797 images: small differences stay undecided.",
            "Settings of each detector are its published defaults, not tuned.",
        ),
        missing=(
            "mahalanobis(space=logits) on uniform noise: singular covariance in run 4",
            "gradnorm on held-out classes 8, 9: no outputs",
            "monte_carlo_dropout(samples=32) on letters: out of time",
        ),
        facts=(
            ("trainings", "9"),
            ("detectors", "18"),
            ("outlier sets", "5"),
            ("images", "1,797"),
            ("cells", "807 of 810"),
            ("classifier", "two-layer network, 64 units"),
        ),
    )


PROVENANCE = (
    ("study", "digits-retraining"),
    ("version", "0.1.0"),
    ("key", "sha256:5f0c9a0f2d7b4b1c9e6f8f5b0a7c3d2e1f4a5b6c7d8e9f00112233445566778899"),
)


def one_point(kind: str, value: float | None = 0.75, label: str = "knn") -> Series:
    """Return a series with a single point."""
    points: dict[str, dict[str, Value]] = {
        "intervals": {"label": label, "group": label, "value": value, "low": value, "high": value},
        "leaderboard": {
            "label": label,
            "value": value,
            "low": value,
            "high": value,
            "letters": "a",
            "leads": "yes",
        },
        "critical": {"label": label, "value": value, "letters": "a"},
        "heatmap": {"row": label, "column": label, "value": value},
        "strips": {"label": label, "panel": label, "level": label, "value": value},
        "boxes": {
            **{"label": label, "panel": label, "value": value},
            **dict.fromkeys(("low", "lower", "upper", "high"), value),
        },
        "lines": {"label": label, "panel": label, "x": 3, "value": value},
        "bars": {"label": label, "part": label, "value": value},
        "ranks": {"label": label, "case": label, "value": value},
        "gaps": {"row": label, "column": label, "value": value, "of": 2, "reason": label},
    }
    return Series(kind, "one", label, label, label, (points[kind],))  # type: ignore[arg-type]


def many(kind: str, values: list[float | None], labels: int = 5, groups: int = 3) -> Series:
    """Return a series that goes through `values` over and over."""
    points: list[dict[str, Value]] = []
    for index in range(max(labels * groups, len(values))):
        value = values[index % len(values)]
        label, group = f"detector {index % labels}", f"group {index // labels % groups}"
        ends = (None, None) if value is None else (value - 0.1, value + 0.2)
        points.append(
            {
                "intervals": {
                    "label": label,
                    "group": group,
                    "value": value,
                    "low": ends[0],
                    "high": ends[1],
                },
                "leaderboard": {
                    "label": f"detector {index}",
                    "value": value,
                    "low": ends[0],
                    "high": ends[1],
                    "letters": "abc"[index % 2 : index % 2 + 2],
                    "leads": "no",
                },
                "critical": {
                    "label": f"detector {index}",
                    "value": value,
                    "letters": "abc"[index % 2 : index % 2 + 2],
                },
                "heatmap": {"row": label, "column": group, "value": value},
                "strips": {"label": label, "panel": "factor", "level": group, "value": value},
                "boxes": {
                    **{"label": label, "panel": group, "value": value},
                    **{"low": ends[0], "lower": value, "upper": ends[1], "high": ends[1]},
                },
                "lines": {"label": label, "panel": "all", "x": index // labels, "value": value},
                "bars": {"label": label, "part": group, "value": value},
                "ranks": {"label": label, "case": group, "value": value},
                "gaps": {
                    **{"row": label, "column": group, "value": value},
                    **{"of": 5, "reason": f"reason {index % 30}"},
                },
            }[kind]
        )
    return Series(kind, "many", "Many", "Many points.", "AUROC", tuple(points))  # type: ignore[arg-type]
