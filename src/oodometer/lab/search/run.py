"""Search for outliers that a detector takes for known data."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oodometer.errors import UserError
from oodometer.lab.options import choose
from oodometer.lab.search.chains import Arrays, Chains, draw, effective_samples
from oodometer.lab.search.energy import Energy, Score, Standard
from oodometer.lab.search.kept import InFolder, Kept, search_key
from oodometer.lab.search.methods import METHODS
from oodometer.lab.search.variations import HasVariation, Variation, as_variation

__all__ = ["METHODS", "SearchResult", "search"]

Scores = NDArray[np.float64]
Progress = Callable[[int, int], None]  # steps done, steps in all
_SECONDS_BETWEEN_SAVES = 30.0


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The image with the lowest score that each chain visited, and how it was found."""

    variation: str
    method: str
    seed: int
    images: Tensor  # (n, channels, height, width) in [0, 1]
    scores: Scores  # of these images, asked for once more
    visited_scores: Scores  # as they were scored during the search
    clean_scores: Scores  # of the given images; of the first points, if images are generated
    latent: NDArray[np.float32]  # the points of the images
    parameters: tuple[str, ...]  # what the coordinates of the points are
    trace: NDArray[np.float32]  # energies (steps + 1, n): where each chain was after each step
    acceptance: Scores  # share of the steps at which a chain moved
    effective: Scores  # effective sample size of each trace
    asked: int  # images that were scored
    varied: bool  # whether these are variations of given images
    notes: tuple[str, ...]  # what a reader has to know
    state: Arrays  # by which the search can be resumed

    @property
    def steps(self) -> int:
        """How many steps each chain made."""
        return len(self.trace) - 1


def search(
    score: Score,
    variation: Variation | HasVariation | str,
    images: Tensor | NDArray[np.generic] | None = None,
    *,
    method: str = "metropolis",
    steps: int = 2000,
    seconds: float | None = None,
    chains: int | None = None,
    seed: int = 0,
    known_scores: NDArray[np.floating] | Tensor | None = None,
    start: str = "given",
    batch_size: int = 1000,
    resume: SearchResult | None = None,
    folder: str | os.PathLike[str] | None = None,
    kept: Kept | None = None,
    progress: Progress | None = None,
) -> SearchResult:
    """Search for the images that `score` takes for known data; there is one chain per image.

    `score` is any function from images, (n, channels, height, width) in [0, 1], to n scores, higher
    = more out-of-distribution. `variation` says how the given images may vary ("affine", "color",
    "linf", or a `Variation`); a generator, such as one of `fit_generator`, takes no images, but the
    number of `chains`.
    `known_scores` are scores of known validation data, by which energies are standardized: without
    them, they are the scores themselves. The search ends after `steps`, or earlier after
    `seconds`. ``start="random"`` begins at random points, as published; by default chains begin
    at the given images, so that what is found is never worse. `resume` goes on with the result of a
    shorter search with the same arguments. In `folder` the search is kept every half minute and at
    its end: the same search is resumed there, also with more steps. `kept` does so in any other
    place that holds this search alone.
    """
    asked = variation if isinstance(variation, str) else as_variation(variation)
    given = _given(images, asked, chains)
    made = as_variation(asked, tuple(given.shape[1:]) if images is not None else None)
    for name, value in (("steps", steps), ("batch_size", batch_size)):
        if type(value) is not int or value < 1:
            raise UserError(f"{name} must be a whole number of at least 1, got {value!r}.")
    if start not in ("given", "random"):
        raise UserError(f"start must be 'given' or 'random', got {start!r}.")
    step = choose("search method", method, METHODS)().step
    standard = Standard() if known_scores is None else Standard.of(known_scores)
    energy = Energy(score, made, given, standard, batch_size)
    earlier = kept.load() if kept is not None and resume is None else None
    if earlier is None:
        state = _begun(energy, made, len(given), seed, start, resume)
        if folder is not None:
            kept = InFolder(Path(folder), _key(energy, state, method, seed))
            earlier = kept.load() if resume is None else None
    if earlier is not None:
        state = _restored(energy, earlier)
    notes = _run(energy, state, step, steps, seconds, progress, kept)
    return _result(energy, state, method, seed, notes)


def _given(
    images: Tensor | NDArray[np.generic] | None, variation: Variation | str, chains: int | None
) -> Tensor:
    """The images to vary as floats; for a generator, one empty image per chain."""
    if isinstance(variation, Variation) and not variation.conditional:
        if images is not None:
            raise UserError(
                f"Variation '{variation.name}' makes its own images: give chains, not images."
            )
        if type(chains) is not int or chains < 1:
            raise UserError(f"chains must be a whole number of at least 1, got {chains!r}.")
        return torch.zeros(chains, 0)
    if chains is not None:
        raise UserError(
            "There is one chain per image: chains is for variations that make their own."
        )
    if images is None:
        raise UserError("There are no images to vary: give images (n, channels, height, width).")
    given = torch.as_tensor(np.asarray(images) if not isinstance(images, Tensor) else images)
    if given.dim() != 4 or not len(given):
        raise UserError(
            f"Images must be (n, channels, height, width), got shape {tuple(given.shape)}."
        )
    given = given.float() / 255 if given.dtype == torch.uint8 else given.float()
    low, high = given.min().item(), given.max().item()
    if not (low >= 0 and high <= 1):
        raise UserError(f"Images must lie in [0, 1], but these are from {low:.3g} to {high:.3g}.")
    return given


def _begun(
    energy: Energy,
    variation: Variation,
    count: int,
    seed: int,
    start: str,
    resume: SearchResult | None,
) -> Chains:
    if resume is None:
        return Chains.begin(energy, variation, count, seed, at_random=start == "random")
    if resume.latent.shape != (count, variation.dimensions):
        raise UserError(
            f"The search to resume has {resume.latent.shape[0]} chains in "
            f"{resume.latent.shape[1]} dimensions, not {count} in {variation.dimensions}."
        )
    return _restored(energy, resume.state)


def _restored(energy: Energy, arrays: Arrays) -> Chains:
    """Go on where a search was kept, and count from there."""
    energy.asked, energy.not_finite = (int(arrays[name].item()) for name in ("asked", "not_finite"))
    return Chains.restore(energy.variation, arrays)


def _snapshot(energy: Energy, chains: Chains) -> Arrays:
    """All that the next step and the notes depend on."""
    counted = {"asked": np.array([energy.asked]), "not_finite": np.array([energy.not_finite])}
    return chains.snapshot() | counted


def _key(energy: Energy, begun: Chains, method: str, seed: int) -> str:
    """What a search is known by: where it starts, what is found there, and how it varies images."""
    made = energy.variation
    somewhere = draw(made, 1, torch.Generator().manual_seed(0))
    with torch.no_grad():
        varied = made.images(energy.given[:1], somewhere)
    arrays = (energy.given, begun.latent, begun.energy, varied)
    return search_key(
        made.name, method, seed, energy.batch_size, *(part.numpy() for part in arrays)
    )


def _run(
    energy: Energy,
    chains: Chains,
    step: Callable[[Energy, Chains], None],
    steps: int,
    seconds: float | None,
    progress: Progress | None,
    kept: Kept | None,
) -> list[str]:
    """Move the chains; return what a reader has to know. A detector that fails ends the search."""
    deadline = None if seconds is None else time.monotonic() + seconds
    saved = time.monotonic()
    while chains.steps < steps:
        now = time.monotonic()
        if kept is not None and now - saved >= _SECONDS_BETWEEN_SAVES:
            kept.save(_snapshot(energy, chains))
            saved = now
        if deadline is not None and now >= deadline:
            return [f"The search stopped after {chains.steps} of {steps} steps: its time was over."]
        try:
            step(energy, chains)
        except UserError as problem:
            if not chains.steps:
                raise
            return [f"The search stopped after {chains.steps} of {steps} steps. {problem}"]
        chains.trace.append(chains.energy.to(torch.float32))
        if progress is not None:
            progress(chains.steps, steps)
    if kept is not None:
        kept.save(_snapshot(energy, chains))
    return []


def _result(
    energy: Energy,
    chains: Chains,
    method: str,
    seed: int,
    notes: list[str],
) -> SearchResult:
    state = _snapshot(energy, chains)
    variation, count = chains.variation, len(chains.latent)
    with torch.no_grad():
        images = torch.cat(
            [
                variation.images(energy.given[rows], chains.lowest[rows])
                for rows in torch.split(torch.arange(count), energy.batch_size)
            ]
        )
    clean, again, stopped = chains.trace[0], chains.lowest_energy, False
    ended = bool(notes)  # early, by a detector that failed, or by the clock
    try:
        again = energy.of_images(images)
        if variation.conditional:
            clean = energy.of_images(energy.given)
    except UserError as problem:
        stopped = True
        if not ended:
            notes.append(f"The images that were found could not be scored once more. {problem}")
    trace = torch.stack(chains.trace)
    if variation.note:
        notes.append(variation.note)
    if energy.not_finite:
        notes.append(
            f"{energy.not_finite:,} of {energy.asked:,} scores were NaN or infinite; these images "
            "were passed over."
        )
    if trace.isfinite().all() and (trace == trace[0, 0]).all():
        notes.append("The detector gave the same score to all images: there is nothing to lower.")
    changed = (again - chains.lowest_energy).abs() > 1e-4 * (1 + chains.lowest_energy.abs())
    if not stopped and changed.any():
        notes.append(
            f"{int(changed.sum())} of {count} images got another score when asked for once more: "
            "the detector draws at random, or depends on the other images of a batch."
        )
    return SearchResult(
        variation=variation.name,
        method=method,
        seed=seed,
        images=images,
        scores=_raw(energy, again),
        visited_scores=_raw(energy, chains.lowest_energy),
        clean_scores=_raw(energy, clean),
        latent=chains.lowest.numpy(),
        parameters=variation.parameters,
        trace=trace.numpy(),
        acceptance=(chains.accepted / max(chains.steps, 1)).double().numpy(),
        effective=effective_samples(trace).numpy(),
        asked=energy.asked,
        varied=variation.conditional,
        notes=tuple(notes),
        state=state,
    )


def _raw(energy: Energy, energies: Tensor) -> Scores:
    """Scores as the detector gave them; those that were not finite are NaN."""
    values = energy.standard.score(energies.double())
    return torch.where(values.isfinite(), values, torch.nan).numpy()
