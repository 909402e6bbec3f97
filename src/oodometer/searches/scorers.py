"""Detectors as functions of images: of open networks, or of anybody's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from oodometer.errors import NotFiniteError, UserError, describe
from oodometer.lab.asking.forward import call
from oodometer.lab.asking.session import Session
from oodometer.lab.data.inputs import Data
from oodometer.lab.detector_models import DetectorModel
from oodometer.lab.detector_models.answers import opened_model
from oodometer.needs import Need, in_text
from oodometer.outputs import Outputs
from oodometer.registry import Choice
from oodometer.scores import Missing
from oodometer.scoring import needs_of

Scorer = Callable[[Tensor], object]  # images in [0, 1] -> scores


@contextmanager
def opened(
    model: nn.Module,
    chosen: Sequence[Choice],
    train: Tensor,
    labels: Tensor | None,
    shift: Tensor,
    scale: Tensor,
    head: str | None,
    device: torch.device | str | None,
    batch_size: int,
) -> Iterator[tuple[dict[str, Scorer], list[Missing]]]:
    """Open the classifier once for each detector; those that cannot be used are named."""
    data: Data = train if labels is None else (train, labels)
    scorers: dict[str, Scorer] = {}
    missing: list[Missing] = []
    ask = partial(Session, model, head=head, batch_size=batch_size, device=device)
    plain = [choice.label for choice in chosen if not _asks_more(choice)]
    with ExitStack() as stack:
        shared: Outputs | None = None  # what most detectors are fitted to, read once for all
        if plain:
            with ask(needs=needs_of(plain), train=data, lenient=True) as session:
                shared = session.learn()
        for choice in chosen:
            own = None if choice.label in plain else data
            try:
                session = stack.enter_context(ask(needs=needs_of([choice.label]), train=own))
                with torch.no_grad():
                    learned = session.learn() if own is not None else shared
                    assert learned is not None
                    fitted = choice.detector.fit(learned, validation=None, **choice.settings)
            except UserError as problem:
                missing.append(Missing(str(problem), detector=choice.label, lasting=True))
                continue
            scorers[choice.label] = _asking(session, model, fitted, shift, scale)
        yield scorers, missing


@contextmanager
def opened_detector(
    choice: Choice,
    learned: Outputs,
    classifier: nn.Module | None,
    data: Data,
    models: Mapping[Need, tuple[DetectorModel, nn.Module]],
    batch_size: int,
) -> Iterator[Scorer]:
    """A detector with its networks, which are opened once; fitted to the outputs `learned`.

    Without a classifier it must read none. `data` are what its probes learn from, if any do.
    """
    with ExitStack() as stack:
        session = None
        if classifier is not None:
            needs = [need for need in choice.needs(grid=False) if need.of_classifier]
            session = stack.enter_context(
                Session(classifier, needs=in_text(needs), train=data, batch_size=batch_size)
            )
        asks = {need: stack.enter_context(opened_model(*pair)) for need, pair in models.items()}
        with torch.no_grad():
            fitted = choice.detector.fit(learned, validation=None, **choice.settings)

        def score(images: Tensor) -> Tensor:
            # What networks draw, they draw from the same seed: a score is a function of the batch.
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                answers = {need: ask(images, "batch") for need, ask in asks.items()}
            if session is None:
                return fitted(Outputs(answers=answers))
            assert classifier is not None
            asked = _asked(session, classifier, images)
            return fitted(replace(asked, answers=answers) if answers else asked)

        yield score


def is_trained(choice: Choice) -> bool:
    """Whether a detector has networks of its own, and reads nothing of a classifier."""
    return all(need.source == "model" for need in choice.needs(grid=False))


def _asks_more(choice: Choice) -> bool:
    """Whether a detector needs further passes, which may learn from the training data."""
    return any(need.source == "probe" for need in choice.needs(grid=False))


def _asking(
    session: Session,
    classifier: nn.Module,
    fitted: Callable[[Outputs], Tensor],
    shift: Tensor,
    scale: Tensor,
) -> Scorer:
    def score(images: Tensor) -> Tensor:
        return fitted(_asked(session, classifier, (images - shift) / scale))

    return score


def _asked(session: Session, classifier: nn.Module, inputs: Tensor) -> Outputs:
    """What an open classifier says about a batch; if some logits are not finite, of which rows."""
    try:
        return session.ask(inputs, gradients=inputs.requires_grad)
    except UserError as problem:
        rows = _not_finite(classifier, inputs)
        if not rows:
            raise
        raise NotFiniteError(
            f"The logits of {len(rows)} of {len(inputs)} images are NaN or infinite, the first at "
            f"index {rows[0]}.",
            rows,
        ) from problem


def _not_finite(classifier: nn.Module, inputs: Tensor) -> list[int]:
    """The rows whose logits are not finite; none if it is not logits that it answers with."""
    place = next(classifier.parameters(), inputs)
    with torch.no_grad():
        answer = call(classifier, "batch", inputs.detach().to(place))
    logits = getattr(answer, "logits", answer)  # as networks of transformers have them
    if not isinstance(logits, Tensor) or len(logits) != len(inputs):
        return []
    bad = ~logits.isfinite().reshape(len(logits), -1).all(1)
    return [int(row) for row in bad.nonzero()[:, 0]]


def scores_of(scorer: Scorer, images: Tensor, batch_size: int) -> NDArray[np.float64]:
    """Scores of images; refuse what is not one finite number per image."""
    parts = []
    for part in torch.split(images, batch_size):
        try:
            with torch.no_grad():
                answer = scorer(part)
        except UserError:
            raise
        except (Exception, SystemExit) as problem:
            raise UserError(f"The detector failed: {describe(problem)}") from problem
        values = answer.detach().cpu().numpy() if isinstance(answer, Tensor) else np.asarray(answer)
        if values.reshape(-1).shape != (len(part),):
            raise UserError(
                f"The detector must return one score per image, {len(part)} numbers, got shape "
                f"{values.shape}."
            )
        parts.append(values.reshape(-1).astype(np.float64))
    scores = np.concatenate(parts)
    bad = np.flatnonzero(~np.isfinite(scores))
    if bad.size:
        raise NotFiniteError(
            f"The detector gave NaN or infinity to {bad.size} of {len(scores)} images, the first "
            f"at index {bad[0]}.",
            bad.tolist(),
        )
    return scores
