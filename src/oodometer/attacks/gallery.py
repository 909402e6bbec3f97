"""The worst that searches have found, beside the images that they came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor

from oodometer.lab.search import SearchResult
from oodometer.pictures import Gallery, Picture, picture
from oodometer.scores import ScoreTable

_SHOWN = 8  # images of each search


def galleries(
    table: ScoreTable,
    found: Sequence[tuple[str, str, SearchResult]],
    outliers: Mapping[str, Tensor],
) -> tuple[Gallery, ...]:
    """One gallery per search of the first run, the lowest scores first."""
    first = found[0][0] if found else ""
    return tuple(
        _gallery(table, run, name, made, outliers[table.sets[name].of])
        for run, name, made in found
        if run == first and name in table.sets
    )


def _gallery(table: ScoreTable, run: str, name: str, made: SearchResult, clean: Tensor) -> Gallery:
    about = table.sets[name]
    known = table.scores(run, about.against, table.id)
    ranked = np.sort(known) if known is not None else np.zeros(0)
    order = np.argsort(made.scores, kind="stable")[:_SHOWN]
    pictures: list[Picture] = []
    for row in order:
        if len(clean) == len(made.images):
            rank = np.searchsorted(ranked, made.clean_scores[row], side="left")
            pictures.append(picture(clean[row].numpy(), f"clean, rank {rank:,}"))
        rank = np.searchsorted(ranked, made.scores[row], side="left")
        pictures.append(picture(made.images[row].numpy(), f"found, rank {rank:,}"))
    return Gallery(
        f"found {name}",
        f"What fools {about.against}: {about.by} of {about.of}",
        tuple(pictures),
        f"The {len(order)} images with the lowest scores, each after the image that it was made "
        f"from. Rank: how many of {len(ranked):,} known samples score lower.",
    )
