"""Searches to do: against which detectors of a run, among which variations of which outliers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

from oodometer.calls import parse_call
from oodometer.engine.plan.keys import code_version, digest
from oodometer.engine.plan.trainings import READING, DataContent
from oodometer.errors import UserError, unknown
from oodometer.lab.data.portions import split_seed
from oodometer.needs import ENSEMBLE, Need
from oodometer.scores import SetInfo, search_title
from oodometer.study import GENERATED, Searches, Study, TrainSpec

if TYPE_CHECKING:  # importing it would load PyTorch, which a finished study does not need
    from oodometer.engine.plan.plan import RunPlan
    from oodometer.registry import Choice

_STEP = 1  # raised by hand when engine/work changes what it makes of the same call


@dataclass(frozen=True)
class SearchPlan:
    """A search for outliers that fool a detector of a run."""

    detector: str  # its label
    outliers: str  # name of the outlier set
    variation: str  # as the study writes it
    key: str
    parents: tuple[str, ...]  # keys of the networks, and of what the detector is fitted to
    settings: Searches
    repeat: int = 1  # each with another seed

    @property
    def title(self) -> str:
        """The name of the data set that it finds."""
        return search_title(self.variation, self.outliers, self.detector, self.repeat)

    @property
    def seed(self) -> int:
        """The seed of this repeat."""
        return self.settings.seed + self.repeat - 1

    @property
    def info(self) -> SetInfo:
        """What the data set is there for."""
        return SetInfo("search", self.detector, self.outliers, self.variation, self.repeat)

    @property
    def passes(self) -> int:
        """How many images are scored."""
        from oodometer.lab.options import choose
        from oodometer.lab.search.methods import METHODS

        wanted = self.settings
        cost = choose("search method", wanted.method_of(self.variation), METHODS)().cost
        return wanted.images * (1 + cost * wanted.steps + 2)  # the start, and twice at the end

    @property
    def progress(self) -> str:
        """The key of the unfinished search."""
        return digest("progress", self.key)


def plan_searches(
    run: RunPlan, wanted: Searches, choices: Sequence[Choice], recipes: Mapping[str, str]
) -> RunPlan:
    """Add the searches of a run, and the scores of its detectors on what is found."""
    code = code_version("lab/search/run", apart_from=(*READING, "lab/training/train"))
    asking = code_version("lab/asking/session", apart_from=READING)
    settings = wanted.model_dump(include={"steps", "images"})
    searches: dict[str, SearchPlan] = {}
    fitted = {c.label: _fitted(c, run) for c in choices if c.label in run.scores}
    for choice in searched(choices, wanted):
        if choice.label not in fitted:  # meant for classifiers of another loss
            continue
        for outliers, content in run.content.ood.items():
            for variation, repeat in product(wanted.variations, range(1, wanted.repeats + 1)):
                parents = (*fitted[choice.label], *_generator(run, variation, outliers))
                plan = SearchPlan(choice.label, outliers, variation, "", parents, wanted, repeat)
                known, method = validation_content(run), wanted.method_of(variation)
                made = [variation, method, settings | {"seed": plan.seed}, content, known]
                key = digest("search", _STEP, code, asking, recipes[choice.label], parents, made)
                searches[plan.title] = replace(plan, key=key)
    found = {
        label: {
            title: digest("found", _STEP, code, asking, recipes[label], parents, search.key)
            for title, search in searches.items()
            if search.repeat == 1 or search.detector == label  # others score one search
        }
        for label, parents in fitted.items()
        if any(choice.label == label and can_be_searched(choice) for choice in choices)
    }
    return replace(run, searches=searches, found=found)


def _generator(run: RunPlan, variation: str, outliers: str) -> tuple[str, ...]:
    """The key of the network that makes the images, if one does."""
    name = variation.partition("(")[0].strip()
    need = Need("model", name, outliers)
    return (run.models[need].model,) if name in GENERATED else ()


def searched(choices: Sequence[Choice], wanted: Searches) -> Iterator[Choice]:
    """The detectors to search against; one that is named and cannot be is refused."""
    named = () if wanted.detectors == "all" else wanted.detectors
    known = [choice.label for choice in choices]
    for name in named:
        if not any(name in (choice.label, choice.text) for choice in choices):
            raise unknown("detector of this study, named by 'searches':", name, known)
    for choice in choices:
        is_named = choice.label in named or choice.text in named
        if not can_be_searched(choice):
            if is_named:
                raise UserError(
                    f"Detector '{choice.label}' cannot be searched against: it learns from "
                    "outliers of the study, or reads several training runs."
                )
        elif is_named or wanted.detectors == "all":
            yield choice


def can_be_searched(choice: Choice) -> bool:
    """Whether a detector gives a score to any image: neither outliers nor other runs decide it."""
    from oodometer.lab.detector_models import find_model

    needs = choice.needs(grid=False)
    models = [find_model(need.name) for need in needs if need.source == "model"]
    of_outliers = choice.detector.learns_from_outliers or any(m.per == "outliers" for m in models)
    return not of_outliers and ENSEMBLE not in needs


def reads_classifier(choice: Choice) -> bool:
    """Whether a detector reads anything of the classifier, and not only networks of its own."""
    return any(need.source != "model" for need in choice.needs(grid=False))


def needs_of_default(choice: Choice, run: RunPlan) -> tuple[Need, ...]:
    """What the detector that is searched reads beyond plain outputs: not that of its whole grid."""
    needed = choice.needs(grid=False)
    return tuple(
        need
        for need in run.needs.get(choice.label, ())
        if replace(need, outliers="", member=0) in needed
    )


def check_searches(
    study: Study, specs: Mapping[str, TrainSpec], contents: Mapping[str, DataContent]
) -> None:
    """Refuse a study whose searches could not be done, before anything is trained."""
    if study.searches is None:
        if "worst_case" in study.protocols:
            raise UserError(
                f"Study '{study.name}' has the protocol worst_case, but no searches: add "
                "'searches' with variations such as [affine, color]."
            )
        return
    from oodometer.lab.generators import GENERATORS, draws
    from oodometer.lab.options import choose
    from oodometer.lab.search import METHODS, VARIATIONS, make_variation

    for text in (study.searches.method, *study.searches.methods.values()):
        choose("search method", text, METHODS)()
    for label, content in contents.items():
        if len(content.train_shape) != 4:
            raise UserError(f"Data set '{content.id}' holds no images, so there is none to vary.")
        for text in study.searches.variations:
            name = parse_call("variation", text)[0]
            if name not in (*VARIATIONS, *GENERATORS):
                raise unknown("variation", name, (*VARIATIONS, *GENERATORS))
            if draws(text) is None:
                make_variation(text, content.train_shape[1:])
        if specs[label].features != "forward":
            raise UserError("Searches ask the classifier as it is: features must be 'forward'.")
        if not specs[label].validation and not content.validation:
            raise UserError(
                f"Searches standardize scores by validation samples, but no sample of "
                f"'{content.id}' is set aside: give validation a share such as 0.1, or a split "
                "that sets some aside."
            )


def validation_content(run: RunPlan) -> object:
    """What scores are standardized by: content of data, and which part of them."""
    spec, content = run.spec, run.content
    if not spec.validation:
        return content.validation
    return [content.train, spec.validation, spec.train_size, split_seed(spec)]


def _fitted(choice: Choice, run: RunPlan) -> tuple[str, ...]:
    """Keys of all that the scores of a detector depend on, beside the images."""
    needs = needs_of_default(choice, run)
    models = [run.models[need].model for need in needs if need in run.models]
    if not reads_classifier(choice):
        fitted = [run.probes[need][""] for need in needs if "" in run.probes[need]]
        return (*models, *fitted)
    read = [run.probes[need].get("", "") for need in needs if need not in run.models]
    return (run.model, run.train_outputs, *models, *filter(None, read))
