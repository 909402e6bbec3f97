"""Search for outliers that fool detectors, and compare what is left of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from oodometer.attacks.images import images_of, in_unit_range, labels_of
from oodometer.attacks.searching import Failures, Searching, SearchSettings, Varied
from oodometer.comparison import Evaluation
from oodometer.errors import UserError
from oodometer.evaluation import (
    Models,
    PathLike,
    models_of,
    require_no_classifier,
)
from oodometer.fitted import fit_detector, load_variation
from oodometer.fitted.fit import checked_auxiliary, training_spec
from oodometer.fitted.images import Pictures, as_images
from oodometer.lab.data.inputs import Data
from oodometer.lab.data.own_data import load_own_data
from oodometer.lab.search import HasVariation, SearchResult, Variation
from oodometer.protocols import score_protocol
from oodometer.scores import (
    Missing,
    ScoreRow,
    ScoreTable,
    SetInfo,
    join_runs,
    search_title,
    validation_half,
)
from oodometer.scoring import choices
from oodometer.searches.gallery import SHOWN, Found, galleries, searches_table
from oodometer.searches.scorers import Scorer, is_trained, opened, scores_of


@dataclass(frozen=True, eq=False)
class Attack(Evaluation):
    """An evaluation of detectors in the average and in the worst case, and what was found."""

    searches: tuple[tuple[str, str, SearchResult], ...] = ()  # run, name of the set, its search


def attack(
    model: Models | None,
    train: str | Data,
    id: str | Data,
    ood: str | Sequence[str] | Mapping[str, str | Data],
    *,
    detectors: str | Sequence[str],
    variations: Varied | Sequence[Varied] = ("affine", "color"),
    method: str = "metropolis",
    steps: int = 300,
    seconds: float | None = None,
    images: int = 200,
    seed: int = 0,
    repeats: int = 1,
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
    "linf", a `Variation`, a fitted generator or the file of one). Half of the ID data standardizes
    the scores, the other half is what outliers are compared with. `steps` and `seconds` limit each
    search; `method` and `seed` are those of `search`, and so is `folder`, in which an interrupted
    attack is resumed. Each search is done `repeats` times, with seeds from `seed` on, which gives
    the lowest rank a standard error; other figures are those of the first. Detectors with networks
    of their own are trained on `train`, of this `size` and with these `auxiliary` outliers, as by
    `fit_detector`; if there are no others, `model` may be None.
    """
    chosen = choices(detectors)
    training_spec(size, seed)  # refuses a wrong one now
    plan = _planned(variations, method, steps, seconds, seed, repeats, batch_size, folder)
    note = notify or (lambda _: None)
    data = load_own_data(train, id, ood, mean, std)
    sets = {name: images_of(name, data) for name in data.sets}
    outliers = {n: part[:images] for n, part in sets.items() if n not in ("train", "id")}
    shift, scale = (torch.from_numpy(part) for part in (data.shift, data.scale))
    tables: dict[str, ScoreTable] = {}
    found: list[tuple[str, str, SearchResult]] = []
    labels = labels_of(data)
    if auxiliary is not None:
        pictures = {name: as_images(part, name=name) for name, part in sets.items()}
        own = replace(pictures.pop("train"), name=train if isinstance(train, str) else "train")
        checked_auxiliary(auxiliary, own, pictures)
    trained: dict[str, Scorer] = {}
    unfit: list[Missing] = []
    for choice in filter(is_trained, chosen):
        try:
            trained[choice.label] = fit_detector(
                choice, sets["train"], labels, auxiliary=auxiliary, size=size, seed=seed,
                device="cpu" if device is None else str(device), notify=note,
            ).score  # fmt: skip
        except UserError as problem:
            unfit.append(Missing(str(problem), detector=choice.label))
    asked = [choice for choice in chosen if not is_trained(choice)]
    if model is None:
        require_no_classifier(asked)
        runs: dict[str, Callable[[], nn.Module]] = {"": nn.Identity}
    else:
        runs = models_of(model, weights, data, note)
    for run, build in runs.items():
        with opened(
            build(), asked, (sets["train"] - shift) / scale, labels, shift, scale, head,
            device, batch_size,
        ) as (scorers, missing):  # fmt: skip
            every = {**scorers, **trained}
            if not every:
                raise UserError(f"No detector could be used. {(*unfit, *missing)[0]}")
            table, searches = _searched(every, sets["id"], outliers, plan, run, note)
        tables[run] = replace(table, missing=(*unfit, *missing, *table.missing))
        found += [(run, name, made) for name, made in searches.items()]
    table = next(iter(tables.values())) if len(tables) == 1 else join_runs(tables, "weights")
    return _concluded(table, found, outliers)


def attack_scores(
    detectors: Mapping[str, Scorer],
    id: Tensor | NDArray[np.generic],
    ood: Mapping[str, Tensor | NDArray[np.generic]],
    *,
    variations: Varied | Sequence[Varied] = ("affine", "color"),
    method: str = "metropolis",
    steps: int = 300,
    seconds: float | None = None,
    seed: int = 0,
    repeats: int = 1,
    batch_size: int = 500,
    folder: PathLike | None = None,
    notify: Callable[[str], None] | None = None,
) -> Attack:
    """Do the same to any functions from images in [0, 1] to scores, higher = more OOD."""
    if not isinstance(detectors, Mapping) or not detectors:
        raise UserError("detectors must map names to functions of images, such as {'mine': score}.")
    plan = _planned(variations, method, steps, seconds, seed, repeats, batch_size, folder)
    known, outliers = (
        in_unit_range("id", _tensor(id)),
        {name: in_unit_range(name, _tensor(part)) for name, part in ood.items()},
    )
    note = notify or (lambda _: None)
    table, found = _searched(detectors, known, outliers, plan, "", note)
    return _concluded(table, [("", name, made) for name, made in found.items()], outliers)


def _tensor(images: Tensor | NDArray[np.generic]) -> Tensor:
    return images if isinstance(images, Tensor) else torch.as_tensor(np.asarray(images))


def _planned(
    variations: Varied | Sequence[Varied],
    method: str,
    steps: int,
    seconds: float | None,
    seed: int,
    repeats: int,
    batch_size: int,
    folder: PathLike | None,
) -> SearchSettings:
    if isinstance(variations, str | Variation | HasVariation):
        variations = (variations,)
    listed = tuple(map(_loaded, variations))
    if not listed:
        raise UserError("variations is empty: name at least one, such as affine.")
    if type(repeats) is not int or repeats < 1:
        raise UserError(f"repeats must be a whole number of at least 1, got {repeats!r}.")
    return SearchSettings(listed, method, steps, seconds, seed, repeats, batch_size, folder)


def _searched(
    scorers: Mapping[str, Scorer],
    known: Tensor,
    outliers: Mapping[str, Tensor],
    plan: SearchSettings,
    run: str,
    note: Callable[[str], None],
) -> tuple[ScoreTable, dict[str, SearchResult]]:
    """Search against every detector; then score everything with every detector."""
    half = torch.from_numpy(validation_half(len(known)))
    standard, test = known[half], known[~half]
    found: dict[str, SearchResult] = {}
    sets: dict[str, SetInfo] = {}
    failures = Failures()
    for label, scorer in scorers.items():
        try:
            known_scores = scores_of(scorer, standard, plan.batch_size)
        except UserError as problem:
            failures.add(problem, label, "id")
            continue
        searching = Searching(label, scorer, known_scores, plan, run, note, failures)
        for name, images in outliers.items():
            for info, made in searching.among(name, images):
                title = search_title(info.by, info.of, label, info.repeat)
                found[title], sets[title] = made, info
    if not found:
        raise UserError(f"No detector could be searched against. {failures.lines()[0]}")
    everything = {"id": test, **outliers, **{title: made.images for title, made in found.items()}}
    rows = []
    searched = {info.against for info in sets.values()}
    for label, scorer in scorers.items():
        if label not in searched:  # and why is said
            continue
        scored: dict[int, NDArray[np.float64]] = {}  # what several sets share is scored once
        for name, images in everything.items():
            about = sets.get(name)
            if about is not None and about.repeat > 1 and about.against != label:
                continue
            try:
                if id(images) not in scored:
                    scored[id(images)] = scores_of(scorer, images, plan.batch_size)
            except UserError as problem:
                failures.add(problem, label, name)
                continue
            rows.append(ScoreRow("", label, "", name, scored[id(images)], True))
    table = ScoreTable("id", tuple(rows), missing=failures.lines(), sets=sets)
    return table, found


def _loaded(asked: Varied) -> Varied:
    """The variation of a saved generator, where a file is named."""
    if isinstance(asked, str) and asked.endswith(".safetensors"):
        return load_variation(asked)
    return asked


def _concluded(
    table: ScoreTable,
    found: Sequence[tuple[str, str, SearchResult]],
    outliers: Mapping[str, Tensor],
) -> Attack:
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
    own = list({id(parts[2]): parts for parts in reversed(found)}.values())[::-1]
    asked = sum(made.asked for _, _, made in own)
    facts = finding.facts
    if first is not None:
        facts += (
            (
                "search",
                f"{first.method}, {max(m.steps for _, _, m in found)} steps, seed {first.seed}",
            ),
            ("images scored by searches", f"{asked:,}"),
        )
    shown = [_shown(table, *parts, outliers) for parts in own if parts[1] in table.sets]
    noted = replace(
        finding,
        facts=facts,
        caveats=(*finding.caveats, *texts),
        tables=(*finding.tables, searches_table(table, shown)),
        galleries=galleries(table, shown),
    )
    return Attack(table, (noted,), texts, searches=tuple(found))


def _shown(
    table: ScoreTable, run: str, name: str, made: SearchResult, outliers: Mapping[str, Tensor]
) -> Found:
    """What a report shows of a search."""
    lowest = np.argsort(made.scores, kind="stable")[:SHOWN]
    clean = outliers[table.sets[name].of]
    came_from = clean[lowest] if made.varied else clean[:0]
    return Found(
        run,
        name,
        lowest,
        came_from.numpy(),
        made.images[lowest].numpy(),
        made.clean_scores,
        made.scores,
        made.latent,
        float(made.acceptance.mean()),
        float(made.effective.mean()),
        made.asked,
    )
