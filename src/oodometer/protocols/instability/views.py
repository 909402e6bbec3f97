"""Tables and pictures of instability, laid out as the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from oodometer.finding import Series, Table, TableCell, Value
from oodometer.protocols.common.views import OF_DETECTORS_ON_SETS, interval_series
from oodometer.protocols.common.words import count
from oodometer.protocols.instability.spreads import Spread


def spread_table(part: Spread, *, published: bool) -> Table:
    """Mean, standard deviation and range of values and of ranks: Tables 3, 4, 5 and 7."""
    rows: list[tuple[TableCell, ...]] = []
    means, mean_ranks = (part.means(own).tolist() for own in (part.values, part.order))
    for row, detector in enumerate(part.detectors):
        mean, mean_rank = means[row], mean_ranks[row]
        deviation, delta = float(part.deviations[row]), float(part.deltas[row])
        rank_deviation = float(part.rank_deviations[row])
        reach = " or ".join(f"{low:g}–{high:g}" for low, high in part.rank_ranges(row))
        rows.append(
            (
                detector,
                f"{100 * mean:.2f}±{100 * deviation:.2f}",
                f"{100 * delta:.2f}",
                f"{mean_rank:.2f}±{rank_deviation:.2f}",
                reach,
            )
            if published
            else (
                detector,
                mean,
                deviation,
                delta,
                round(mean_rank, 2),
                round(rank_deviation, 2),
                reach,
                int(part.flipped[row].sum()),
            )
        )
    several = not published and len(np.unique(part.groups)) > 1
    accuracy = ""
    if part.accuracy is not None and len(part.accuracy) > 1:
        spread = part.accuracy_deviation
        mean = float(part.means(part.accuracy[None])[0])
        accuracy = f" Accuracy {100 * mean:.2f} ± {100 * spread:.2f}%."
    own = (
        "mean",
        "standard deviation",
        "highest − lowest",
        "mean rank",
        "rank s.d.",
        "ranks",
        "changes places with",
    )
    paper = ("mean±std", "delta", "rank mean±std", "range")
    return Table(
        f"spread-{part.factor}-{part.set}",
        f"{part.metric} on {part.set} over {_differing(part)}",
        ("detector", *(paper if published else own)),
        tuple(rows),
        f"Rank {'0' if published else '1'} is best.{accuracy}"
        + ("" if published else " Last: with how many other detectors, all else being the same.")
        + (" Ranks: from lowest to highest while all else is the same." if several else ""),
    )


def _differing(part: Spread) -> str:
    runs = count(part.runs, part.run_word)
    return runs if part.run_word == part.factor.lower() else f"{runs} that differ in {part.factor}"


def level_table(part: Spread, *, published: bool = False) -> Table:
    """A line per level, a column per detector: Tables 2 and 6."""
    rows: list[tuple[TableCell, ...]] = []

    def cell(value: float) -> TableCell:
        return f"{100 * value:.2f}" if published else value

    for level in part.levels:
        known = [] if part.accuracy is None else [part.accuracy]
        means = part.means(np.array([*known, *part.values]), level)
        rows.append((level, *(cell(value) for value in means.tolist())))
    return Table(
        f"levels-{part.factor}-{part.set}",
        f"{part.metric} on {part.set} at each level of {part.factor}",
        (part.factor, *(() if part.accuracy is None else ("accuracy",)), *part.detectors),
        tuple(rows),
        f"Means over the runs of a level, of {_differing(part)}."
        if part.runs > len(part.levels)
        else "",
    )


def extremes_table(part: Spread) -> Table:
    """At which level each detector is best and worst, and what rank it has there."""
    rows: list[tuple[TableCell, ...]] = []
    for row, detector in enumerate(part.detectors):
        cells: list[TableCell] = []
        both = np.array([part.values[row], part.order[row]])
        for level in part.extremes(row):
            mean, mean_rank = part.means(both, level).tolist()
            cells += [level, mean, round(mean_rank, 2)]
        rows.append((detector, *cells))
    several = len(np.unique(part.groups)) > 1
    return Table(
        f"extremes-{part.factor}-{part.set}",
        f"Best and worst {part.factor} of each detector on {part.set}",
        ("detector", f"best {part.factor}", f"{part.metric} at best", "rank at best",
         f"worst {part.factor}", f"{part.metric} at worst", "rank at worst"),
        tuple(rows),
        f"What a choice of {part.factor} can make of a detector."
        + (" Means over the runs of a level." if several else ""),
    )  # fmt: skip


def moves(parts: Sequence[Spread]) -> list[Series]:
    """Mean of every detector, and how far runs lie about it that differ in one factor alone."""
    found = []
    for factor in dict.fromkeys(part.factor for part in parts):
        own = [part for part in parts if part.factor == factor]
        found.append(
            interval_series(
                f"moves-{factor}",
                f"How far the {factor} moves each detector",
                f"Mean {own[0].metric}, and from the lowest to the highest run, other factors "
                "being the same; not a confidence interval.",
                own[0].metric,
                [
                    (detector, part.set, part.range(row))
                    for part in own
                    for row, detector in enumerate(part.detectors)
                ],
                higher_is_better=own[0].higher_is_better,
                roles=OF_DETECTORS_ON_SETS,
            )
        )
    return found


def value_lines(parts: Sequence[Spread]) -> list[Series]:
    """Value against the level, where levels are numbers in order, such as epochs."""
    found = []
    for part in parts:
        positions = [_number(level) for level in part.level]
        known = [position for position in positions if position is not None]
        if part.kind == "repeat" or len(known) < len(positions):
            continue
        if len(set(known)) < 3:
            continue
        points: list[Mapping[str, Value]] = [
            {"label": detector, "panel": part.set, "x": x, "value": float(value)}
            for row, detector in enumerate(part.detectors)
            for x, value in sorted(_means(known, part.values[row]).items())
        ]
        if part.accuracy is not None:
            points += [
                {"label": "accuracy", "panel": part.set, "x": x, "value": float(value)}
                for x, value in sorted(_means(known, part.accuracy).items())
            ]
        found.append(
            Series(
                "lines",
                f"lines-{part.factor}-{part.set}",
                f"{part.metric} on {part.set} against {part.factor}",
                f"One line per detector over {count(len(set(known)), 'level')} of {part.factor}.",
                part.metric,
                tuple(points),
                higher_is_better=part.higher_is_better,
                roles={"label": "detector", "panel": "set"},
                x_label=part.factor,
            )
        )
    return found


def _means(
    positions: Sequence[float], values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]
) -> dict[float, float]:
    known: dict[float, list[float]] = {}
    for position, value in zip(positions, values, strict=True):
        known.setdefault(position, []).append(float(value))
    return {position: sum(parts) / len(parts) for position, parts in known.items()}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
