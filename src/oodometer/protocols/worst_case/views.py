"""Tables and figures of the worst case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from oodometer.finding import Series, Table, TableCell
from oodometer.protocols.worst_case.searched import Searched
from oodometer.protocols.worst_case.survival import Survival


def losses_table(part: Searched) -> Table:
    """What each detector loses in a search."""
    rows: list[tuple[TableCell, ...]] = []
    survival = Survival(part) if len(part.runs) > 1 else None
    places = {name: place for place, name in enumerate(part.clean_order, 1)}
    ranks = {name: part.lowest_rank(name) for name in part.found}
    known = {kind for rank in ranks.values() for kind, e in rank.errors.items() if e is not None}
    errors = sorted(known, reverse=True)  # runs, then repeats
    for place, name in enumerate(part.detectors, 1):
        loss, found = part.losses[name], part.found[name]
        rank = ranks[name]
        rows.append(
            (
                name,
                part.clean(name),
                part.worst(name),
                loss.estimate,
                part.accepted(name, part.outliers),
                part.accepted(name, found),
                round(rank.mean, 1) if errors else int(rank.mean),
                *(rank.errors[kind] for kind in errors),
                f"{places[name]} → {place}",
                *(() if survival is None else (_span(*survival.places(name)),)),
            )
        )
    return Table(
        f"worst_case {part.variation} {part.outliers}",
        f"Clean and worst case: {part.name}",
        (
            "detector", "clean AUROC", "worst AUROC", "loss", "clean accepted", "found accepted",
            "lowest rank", *(f"± over {kind}" for kind in errors), "place",
            *(() if survival is None else ("places in runs",)),
        ),
        tuple(rows),
        "Accepted: share of the outliers that pass for known data where 95% of known data pass. "
        f"Lowest rank: how many of {part.known:,} known samples score below the lowest outlier "
        f"that was found (MinRank; 0 is the worst){_meaning(errors)}. Place: on "
        "clean outliers → in the worst case.",
    )  # fmt: skip


def _meaning(errors: Sequence[str]) -> str:
    """What the columns beside the lowest rank say."""
    words = {
        "runs": "± over runs: its standard error over training runs",
        "repeats": "± over repeats: that over repeats of the search in one run, with other seeds",
    }
    if not errors:
        return ""
    return "; ".join([f", mean over {' and '.join(errors)}", *(words[kind] for kind in errors)])


def _span(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}–{high}"


def transfer_table(part: Searched) -> Table:
    """The AUROC of each detector on what was found against each, as numbers."""
    return Table(
        f"transfer {part.variation} {part.outliers}",
        f"Transfer: AUROC of each detector on what was found against another, {part.name}",
        ("found against", *part.detectors),
        tuple(
            (against, *(part.transfer(against, name) for name in part.detectors))
            for against in part.detectors
        ),
        "On the diagonal, each detector on what was found against itself.",
    )


def transfer_map(part: Searched) -> Series:
    """The same as a figure."""
    return Series(
        "heatmap",
        f"transfer map {part.variation} {part.outliers}",
        f"Whom do the found outliers fool? {part.name}",
        "AUROC of the detector of each column on what was found against the detector of each row.",
        "AUROC",
        tuple(
            {"row": against, "column": name, "value": part.transfer(against, name)}
            for against in part.detectors
            for name in part.detectors
        ),
        roles={"row": "detector"},
    )


def by_outliers(searched: Iterable[Searched]) -> Mapping[str, Sequence[Searched]]:
    """Searches by the outlier set that they began at."""
    sets: dict[str, list[Searched]] = {}
    for part in searched:
        sets.setdefault(part.outliers, []).append(part)
    return sets


def intervals(outliers: str, parts: Sequence[Searched]) -> Series:
    """The AUROC of each detector, clean and in all searches among variations of a set."""
    return Series(
        "intervals",
        f"clean and worst {outliers}",
        f"Clean and worst case: {outliers}",
        "AUROC of each detector on the clean outliers, and on those that were found against it by "
        "each variation.",
        "AUROC",
        tuple(
            {"label": name, "group": group, "value": made.value, "low": made.low, "high": made.high}
            for name in _detectors(parts)
            for group, made in (
                ("clean", _first(parts, name).clean(name)),
                *((part.variation, part.worst(name)) for part in parts if name in part.found),
            )
        ),
        roles={"label": "detector"},
    )


def places(outliers: str, parts: Sequence[Searched]) -> Series:
    """The order of the detectors on the clean outliers, and in the worst case."""
    return Series(
        "ranks",
        f"places {outliers}",
        f"The order before and after: {outliers}",
        "Place of each detector by its AUROC on the clean outliers, and on those that were found "
        "against it by each variation.",
        "place",
        tuple(
            {"label": name, "case": case, "value": order.index(name) + 1}
            for name in _detectors(parts)
            for case, order in (
                ("clean", parts[0].clean_order),
                *((part.variation, part.detectors) for part in parts),
            )
            if name in order
        ),
        higher_is_better=False,
        roles={"label": "detector"},
    )


def _detectors(parts: Sequence[Searched]) -> tuple[str, ...]:
    """All detectors, those first that are best in the first search."""
    return tuple(dict.fromkeys(name for part in parts for name in part.detectors))


def _first(parts: Sequence[Searched], name: str) -> Searched:
    return next(part for part in parts if name in part.found)
