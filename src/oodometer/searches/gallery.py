"""What searches have found, for reports: pictures beside those that they came from, and a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oodometer.finding import Table, TableCell
from oodometer.pictures import Gallery, Picture, picture
from oodometer.scores import ScoreTable
from oodometer.searches.modes import MOST_DIMENSIONS, failure_modes

SHOWN = 8  # images of each search
# What of a search's arrays shows what it has found.
SHOWN_ARRAYS = ("shown/rows", "shown/clean", "shown/found", "clean_scores", "scores")
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
    arrays = {
        "shown/rows": made.rows, "shown/clean": made.clean, "shown/found": made.images,
        "clean_scores": made.clean_scores, "scores": made.scores,
    }  # fmt: skip
    ranked = known if known is not None else np.zeros(0)
    return found_gallery(f"{about.by} of {about.of}", about.against, arrays, ranked)


def found_gallery(
    name: str, against: str, arrays: Mapping[str, NDArray[Any]], known: NDArray[np.float64]
) -> Gallery:
    """What one search has found, by its arrays (`SHOWN_ARRAYS`), ranked among known scores."""
    rows, clean = arrays["shown/rows"], arrays["shown/clean"]
    scores = np.stack([arrays["clean_scores"], arrays["scores"]])[:, rows]
    ranks = np.searchsorted(np.sort(known), scores, side="left")
    written = _written(scores)
    pictures: list[Picture] = []
    for place, image in enumerate(arrays["shown/found"]):
        ends = slice(0 if len(clean) else 1, 2)
        rank = " → ".join(f"{value:,}" for value in ranks[ends, place])
        score = " → ".join(words[place] for words in written[ends])
        before = clean[place] if len(clean) else None
        pictures.append(picture(image, f"rank {rank}\nscore {score}", before))
    limit = ""
    if len(known):
        accepted = _written(np.quantile(known, [[_ACCEPTED]]), scores)[0][0]
        limit = f"; 95% of known samples score below {accepted}"
    return Gallery(
        f"found {name} against {against}",
        f"What fools {against}: {name}",
        tuple(pictures),
        f"The {len(rows)} images with the lowest scores"
        f"{', each after the image that it was made from' if len(clean) else ''}. Rank: how "
        f"many of {len(known):,} known samples score lower{limit}.",
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
