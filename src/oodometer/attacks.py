"""Search for outliers that fool detectors, and compare what is left of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from oodometer.errors import UserError, describe
from oodometer.evaluation import Evaluation, Models, PathLike, models_of
from oodometer.fitted import fit_detector
from oodometer.fitted.images import Pictures
from oodometer.lab.asking.session import Session
from oodometer.lab.data.inputs import Data
from oodometer.lab.data.own_data import OwnData, load_own_data
from oodometer.lab.search import SearchResult, Variation, make_variation, search
from oodometer.outputs import Outputs
from oodometer.protocols import score_protocol
from oodometer.registry import Choice
from oodometer.scores import Missing, ScoreRow, ScoreTable, SetInfo, join_runs, validation_half
from oodometer.scoring import choices, needs_of

Scorer = Callable[[Tensor], object]  # images in [0, 1] -> scores
_SECONDS_BETWEEN_NOTES = 10.0


@dataclass(frozen=True, eq=False)
class Attack(Evaluation):
    """An evaluation of detectors in the average and in the worst case, and what was found."""

    searches: tuple[tuple[str, str, SearchResult], ...] = ()  # run, name of the set, its search


@dataclass(frozen=True)
class _Plan:
    """What to search, and how long."""

    variations: tuple[str | Variation, ...]
    method: str
    steps: int
    seconds: float | None
    seed: int
    batch_size: int
    folder: PathLike | None


def attack(
    model: Models | None,
    train: str | Data,
    id: str | Data,
    ood: str | Sequence[str] | Mapping[str, str | Data],
    *,
    detectors: str | Sequence[str],
    variations: str | Variation | Sequence[str | Variation] = ("affine", "color"),
    method: str = "metropolis",
    steps: int = 300,
    seconds: float | None = None,
    images: int = 200,
    seed: int = 0,
    weights: PathLike | Sequence[PathLike] = (),
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    head: str | None = None,
    device: torch.device | str | None = None,
    batch_size: int = 500,
    auxiliary: Pictures | None = None,
    size: str = "small",
    folder: PathLike | None = None,
    notify: Callable[[str], None] | None = None,
) -> Attack:
    """Search for outliers that each detector takes for known data, around the images of `ood`.

    The data are those of `evaluate`, but images in [0, 1] before they are normalized. The first
    `images` of each outlier set are varied, one chain each, by `variations` ("affine", "color",
    "linf", or a `Variation`). Half of the ID data standardizes the scores, the other half is
    what outliers are compared with. `steps` and `seconds` limit each search; `method` and `seed`
    are those of `search`, and so is `folder`, in which an interrupted attack is resumed. Detectors
    with networks of their own are trained on `train`, of this `size` and with these `auxiliary`
    outliers, as by `fit_detector`; if there are no others, `model` may be None.
    """
    chosen = choices(detectors)
    plan = _planned(variations, method, steps, seconds, seed, batch_size, folder)
    note = notify or (lambda _: None)
    data = load_own_data(train, id, ood, mean, std)
    sets = {name: _as_images(name, data) for name in data.sets}
    outliers = {n: part[:images] for n, part in sets.items() if n not in ("train", "id")}
    shift, scale = (torch.from_numpy(part) for part in (data.shift, data.scale))
    tables: dict[str, ScoreTable] = {}
    found: list[tuple[str, str, SearchResult]] = []
    labels = _labels(data)
    trained = {
        choice.label: fit_detector(
            choice.label, sets["train"], labels, auxiliary=auxiliary, size=size, seed=seed,
            device="cpu" if device is None else str(device), notify=note,
        ).score
        for choice in chosen if _is_trained(choice)
    }  # fmt: skip
    asked = [choice for choice in chosen if choice.label not in trained]
    if model is None:
        _require_trained(asked)
        runs: dict[str, Callable[[], nn.Module]] = {"": nn.Identity}
    else:
        runs = models_of(model, weights, data, note)
    for run, build in runs.items():
        with _opened(
            build(), asked, (sets["train"] - shift) / scale, labels, shift, scale, head,
            device, batch_size,
        ) as (scorers, missing):  # fmt: skip
            every = {**scorers, **trained}
            if not every:
                raise UserError(f"No detector could be used. {missing[0]}")
            table, searches = _searched(every, sets["id"], outliers, plan, run, note)
        tables[run] = replace(table, missing=(*missing, *table.missing))
        found += [(run, name, made) for name, made in searches.items()]
    table = next(iter(tables.values())) if len(tables) == 1 else join_runs(tables, "weights")
    return _concluded(table, found)


def attack_scores(
    detectors: Mapping[str, Scorer],
    id: Tensor | NDArray[np.generic],
    ood: Mapping[str, Tensor | NDArray[np.generic]],
    *,
    variations: str | Variation | Sequence[str | Variation] = ("affine", "color"),
    method: str = "metropolis",
    steps: int = 300,
    seconds: float | None = None,
    seed: int = 0,
    batch_size: int = 500,
    folder: PathLike | None = None,
    notify: Callable[[str], None] | None = None,
) -> Attack:
    """Do the same to any functions from images in [0, 1] to scores, higher = more OOD."""
    if not isinstance(detectors, Mapping) or not detectors:
        raise UserError("detectors must map names to functions of images, such as {'mine': score}.")
    plan = _planned(variations, method, steps, seconds, seed, batch_size, folder)
    table, found = _searched(
        detectors,
        _in_unit_range("id", torch.as_tensor(np.asarray(id))),
        {
            name: _in_unit_range(name, torch.as_tensor(np.asarray(part)))
            for name, part in ood.items()
        },
        plan,
        "",
        notify or (lambda _: None),
    )
    return _concluded(table, [("", name, made) for name, made in found.items()])


def _planned(
    variations: str | Variation | Sequence[str | Variation],
    method: str,
    steps: int,
    seconds: float | None,
    seed: int,
    batch_size: int,
    folder: PathLike | None,
) -> _Plan:
    listed = (variations,) if isinstance(variations, str | Variation) else tuple(variations)
    if not listed:
        raise UserError("variations is empty: name at least one, such as affine.")
    return _Plan(listed, method, steps, seconds, seed, batch_size, folder)


@contextmanager
def _opened(
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
    opened = partial(Session, model, head=head, batch_size=batch_size, device=device)
    plain = [choice.label for choice in chosen if not _asks_more(choice)]
    with ExitStack() as stack:
        shared: Outputs | None = None  # what most detectors are fitted to, read once for all
        if plain:
            with opened(needs=needs_of(plain), train=data, lenient=True) as session:
                shared = session.learn()
        for choice in chosen:
            own = None if choice.label in plain else data
            try:
                session = stack.enter_context(opened(needs=needs_of([choice.label]), train=own))
                with torch.no_grad():
                    learned = session.learn() if own is not None else shared
                    assert learned is not None
                    fitted = choice.detector.fit(learned, validation=None, **choice.settings)
            except UserError as problem:
                missing.append(Missing(str(problem), detector=choice.label, lasting=True))
                continue
            scorers[choice.label] = _asking(session, fitted, shift, scale)
        yield scorers, missing


def _is_trained(choice: Choice) -> bool:
    """Whether a detector has networks of its own, and reads nothing of a classifier."""
    return all(need.source == "model" for need in choice.needs(grid=False))


def _require_trained(others: Sequence[Choice]) -> None:
    if others:
        raise UserError(
            f"{', '.join(choice.label for choice in others[:5])} read the outputs of a classifier: "
            "give a model, or name detectors with networks of their own only."
        )


def _asks_more(choice: Choice) -> bool:
    """Whether a detector needs further passes, which may learn from the training data."""
    return any(need.source == "probe" for need in choice.needs(grid=False))


def _asking(
    session: Session, fitted: Callable[[Outputs], Tensor], shift: Tensor, scale: Tensor
) -> Scorer:
    def score(images: Tensor) -> Tensor:
        asked = session.ask((images - shift) / scale, gradients=images.requires_grad)
        return fitted(asked)

    return score


def _searched(
    scorers: Mapping[str, Scorer],
    known: Tensor,
    outliers: Mapping[str, Tensor],
    plan: _Plan,
    run: str,
    note: Callable[[str], None],
) -> tuple[ScoreTable, dict[str, SearchResult]]:
    """Search against every detector; then score everything with every detector."""
    half = torch.from_numpy(validation_half(len(known)))
    standard, test = known[half], known[~half]
    found: dict[str, SearchResult] = {}
    sets: dict[str, SetInfo] = {}
    missing: list[Missing] = []
    usable = dict(scorers)
    for label, scorer in scorers.items():
        try:
            known_scores = _scores(scorer, standard, plan.batch_size)
            for name, images in outliers.items():
                for asked in plan.variations:
                    made = _variation(asked, images)
                    title = f"{made.name} of {name} against {label}"
                    found[title] = search(
                        scorer, made, images if made.conditional else None, method=plan.method,
                        steps=plan.steps, seconds=plan.seconds, seed=plan.seed,
                        chains=None if made.conditional else len(images),
                        known_scores=known_scores, batch_size=plan.batch_size, folder=plan.folder,
                        progress=_Progress(title, run, note),
                    )  # fmt: skip
                    sets[title] = SetInfo("search", against=label, of=name, by=made.name)
        except UserError as problem:
            missing.append(Missing(str(problem), detector=label))
            usable.pop(label)
    if not usable:
        raise UserError(f"No detector could be searched against. {missing[0]}")
    everything = {"id": test, **outliers, **{title: made.images for title, made in found.items()}}
    rows = []
    for label, scorer in usable.items():
        for name, images in everything.items():
            try:
                scores = _scores(scorer, images, plan.batch_size)
            except UserError as problem:
                missing.append(Missing(str(problem), detector=label, dataset=name))
                continue
            rows.append(ScoreRow("", label, "", name, scores, True))
    table = ScoreTable("id", tuple(rows), missing=tuple(missing), sets=sets)
    return table, found


class _Progress:
    """Says now and then how far a search is, and how long it may take."""

    def __init__(self, title: str, run: str, note: Callable[[str], None]) -> None:
        self._title = f"{run}: {title}" if run else title
        self._note, self._started = note, time.monotonic()
        self._said = self._started

    def __call__(self, done: int, steps: int) -> None:
        now = time.monotonic()
        if now - self._said >= _SECONDS_BETWEEN_NOTES:
            self._said = now
            left = (now - self._started) / done * (steps - done)
            self._note(f"{self._title}: step {done} of {steps}, about {left:.0f} s left")


def _variation(asked: str | Variation, images: Tensor) -> Variation:
    return make_variation(asked, tuple(images.shape[1:])) if isinstance(asked, str) else asked


def _scores(scorer: Scorer, images: Tensor, batch_size: int) -> NDArray[np.float64]:
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
        raise UserError(
            f"The detector gave NaN or infinity to {bad.size} of {len(scores)} images, the first "
            f"at index {bad[0]}."
        )
    return scores


def _as_images(name: str, data: OwnData) -> Tensor:
    """A data set as floats in [0, 1], before normalization."""
    given = data.sets[name]
    if hasattr(given, "floats"):
        return _in_unit_range(name, torch.from_numpy(np.array(given.floats())))
    if isinstance(given, tuple):
        given = given[0]
    if not isinstance(given, Tensor | np.ndarray):
        raise UserError(
            f"Data set '{name}' is a {type(given).__name__}: a search varies images, so give the "
            "name or path of images, or an array (n, channels, height, width)."
        )
    return _in_unit_range(name, torch.as_tensor(given))


def _in_unit_range(name: str, images: Tensor) -> Tensor:
    if images.dim() != 4 or not len(images):
        raise UserError(
            f"Data set '{name}' must be images (n, channels, height, width), got shape "
            f"{tuple(images.shape)}."
        )
    floats = images.float() / 255 if images.dtype == torch.uint8 else images.float()
    if not (floats.min() >= 0 and floats.max() <= 1):
        raise UserError(
            f"Images of '{name}' must lie in [0, 1] to be varied, but they are from "
            f"{floats.min():.3g} to {floats.max():.3g}: give them before normalization, and the "
            "mean and std."
        )
    return floats


def _labels(data: OwnData) -> Tensor | None:
    given = data.sets["train"]
    labels = getattr(given, "labels", given[1] if isinstance(given, tuple) else None)
    return None if labels is None else torch.as_tensor(np.asarray(labels))


def _concluded(table: ScoreTable, found: Sequence[tuple[str, str, SearchResult]]) -> Attack:
    finding = score_protocol("worst_case")(table, np.random.default_rng(0))
    notes: dict[str, list[str]] = {}
    for run, name, made in found:
        for text in made.notes:
            notes.setdefault(text, []).append(f"{run}: {name}" if run else name)
    texts = tuple(
        f"{names[0]}{f' and {len(names) - 1} more' * (len(names) > 1)}: {text}"
        for text, names in notes.items()
    )
    first = found[0][2] if found else None
    asked = sum(made.asked for _, _, made in found)
    facts = finding.facts
    if first is not None:
        facts += (
            (
                "search",
                f"{first.method}, {max(m.steps for _, _, m in found)} steps, seed {first.seed}",
            ),
            ("images scored by searches", f"{asked:,}"),
        )
    noted = replace(finding, facts=facts, caveats=(*finding.caveats, *texts))
    return Attack(table, (noted,), texts, searches=tuple(found))
