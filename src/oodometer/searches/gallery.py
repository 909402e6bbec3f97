"""What searches have found, for reports: pictures beside those that they came from, and a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oodometer.finding import Table, TableCell
from oodometer.pictures import Gallery, Picture, picture
from oodometer.scores import ScoreTable
from oodometer.searches.modes import MOST_DIMENSIONS, failure_modes

SHOWN = 8  # images of each search
_ACCEPTED = 0.95  # share of known data below the threshold


@dataclass(frozen=True, eq=False)
class Found:
    """What a search has found in a run, as far as reports show it."""

    run: str
    name: str  # of the data set
    rows: NDArray[np.int64]  # of the images to show, the lowest scores first
    clean: NDArray[Any]  # images that these came from; none if they came from nowhere
    images: NDArray[Any]
    clean_scores: NDArray[np.float64]  # of all
    scores: NDArray[np.float64]
    latent: NDArray[np.floating]
    acceptance: float  # share of the steps at which chains moved, their mean
    effective: float  # effective sample size of a chain, the mean
    asked: int  # images that were scored


def galleries(table: ScoreTable, found: Sequence[Found]) -> tuple[Gallery, ...]:
    """One gallery per search of the first run, repeats left out, the lowest scores first."""
    first = found[0].run if found else ""
    known = [made for made in found if made.run == first and made.name in table.sets]
    return tuple(_gallery(table, made) for made in known if table.sets[made.name].repeat == 1)


def _gallery(table: ScoreTable, made: Found) -> Gallery:
    about = table.sets[made.name]
    known = table.scores(made.run, about.against, table.id)
    ranked = np.sort(known) if known is not None else np.zeros(0)
    scores = np.stack([made.clean_scores, made.scores])[:, made.rows]
    ranks = np.searchsorted(ranked, scores, side="left")
    written = _written(scores)
    pictures: list[Picture] = []
    for place, image in enumerate(made.images):
        ends = slice(0 if len(made.clean) else 1, 2)
        rank = " → ".join(f"{value:,}" for value in ranks[ends, place])
        score = " → ".join(words[place] for words in written[ends])
        before = made.clean[place] if len(made.clean) else None
        pictures.append(picture(image, f"rank {rank}\nscore {score}", before))
    return Gallery(
        f"found {made.name}",
        f"What fools {about.against}: {about.by} of {about.of}",
        tuple(pictures),
        f"The {len(made.rows)} images with the lowest scores"
        f"{', each after the image that it was made from' if len(made.clean) else ''}. Rank: how "
        f"many of {len(ranked):,} known samples score lower; 95% of known samples score below "
        f"{_written(np.quantile(known, [[_ACCEPTED]]), scores)[0][0]}."
        if known is not None
        else "",
    )


def _written(
    values: NDArray[np.float64], like: NDArray[np.float64] | None = None
) -> list[list[str]]:
    """Scores with as many decimal places as their spread, or that of others, asks for."""
    known = values if like is None else like
    finite = known[np.isfinite(known)]
    spread = float(np.ptp(finite)) if finite.size else 0.0
    places = min(6, max(0, 2 - int(np.floor(np.log10(spread))))) if spread > 0 else 3
    return [[f"{value:.{places}f}".replace("-", "−") for value in row] for row in values]


def searches_table(table: ScoreTable, found: Iterable[Found]) -> Table:
    """How the searches went: one line per search, runs and repeats together."""
    by_title: dict[tuple[str, str, str], list[Found]] = {}
    for made in found:
        if about := table.sets.get(made.name):
            by_title.setdefault((about.against, about.by, about.of), []).append(made)
    rows: list[tuple[TableCell, ...]] = []
    for title, parts in by_title.items():
        modes = [_modes(table, made) for made in parts]
        counted = [str(number) for number in modes if number is not None]
        rows.append(
            (
                *title,
                ", ".join(dict.fromkeys(counted)) if len(set(counted)) == 1 else ", ".join(counted),
                float(np.mean([made.acceptance for made in parts])),
                float(np.mean([made.effective for made in parts])),
                sum(made.asked for made in parts),
            )
        )
    return Table(
        "searches",
        "How the searches went",
        (
            "against", "variation", "of", "failure modes", "moves accepted",
            "effective sample size", "images scored",
        ),
        tuple(rows),
        "Failure modes: groups of accepted outliers whose parameters lie apart, by a gap wider "
        "than chance leaves between evenly spread ones, for each search; not counted where the "
        f"parameters are more than {MOST_DIMENSIONS}. Accepted: where 95% of known data are.",
    )  # fmt: skip


def _modes(table: ScoreTable, made: Found) -> int | None:
    """Failure modes: groups among the points whose images pass for known data."""
    known = table.scores(made.run, table.sets[made.name].against, table.id)
    if known is None or made.latent.shape[1] > MOST_DIMENSIONS:
        return None
    return failure_modes(made.latent[made.scores <= np.quantile(known, _ACCEPTED)])
