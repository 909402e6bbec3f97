"""Run a study: only what the store lacks, then collect and conclude."""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from oodometer.engine.executors import Executor
from oodometer.engine.executors.in_process import InProcess
from oodometer.engine.executors.pool import Pool
from oodometer.engine.lead.collect import collect, conclude
from oodometer.engine.lead.estimates import Asking, Cost, DataSize, estimate, kind_of
from oodometer.engine.lead.runner import Runner, Settings
from oodometer.engine.lead.tasks import forget, lend, warm_up
from oodometer.engine.plan.artefacts import Stage, count_present, present
from oodometer.engine.plan.models import ModelPlan
from oodometer.engine.plan.plan import Plan, RunPlan, fits_loss, plan
from oodometer.engine.plan.searches import check_searches
from oodometer.engine.plan.study_index import Outcome, find_finished, record_outcome, record_plan
from oodometer.engine.plan.trainings import DataContent, TrainingPlan
from oodometer.engine.stores import DamagedError, MemoryStore, Store
from oodometer.engine.upkeep.mending import drop_damaged, drop_incomplete, drop_other_versions
from oodometer.engine.upkeep.watch import Progress
from oodometer.engine.versions import earlier_versions
from oodometer.engine.work.data import KEPT_BYTES, data_fields
from oodometer.errors import UserError, describe, unknown
from oodometer.lab.data.auxiliary import (
    check_auxiliary_images,
    check_auxiliary_name,
    load_auxiliary,
    untested_part,
)
from oodometer.lab.data.encoders import pretrained_digest
from oodometer.lab.data.label_noise import apply_noise
from oodometer.lab.data.outliers import load_outliers
from oodometer.lab.data.portions import noise_digest, portion_rows
from oodometer.lab.data.samples import Samples
from oodometer.lab.data.sources import Source, load_source
from oodometer.needs import Need
from oodometer.protocols import score_protocol
from oodometer.study import Study, TrainSpec

if TYPE_CHECKING:  # importing it would load PyTorch
    from oodometer.registry import Choice


def read_contents(study: Study) -> dict[str, DataContent]:
    """Load the data of every run and tell what they hold; bad data are found here, early."""
    return read_data_of(study)[0]


class _Data(NamedTuple):
    """What is known of data that some runs share."""

    content: DataContent
    size: DataSize
    labels: NDArray[np.int64]  # of the training set


def read_data_of(study: Study) -> tuple[dict[str, DataContent], dict[str, DataSize]]:
    """What the data of every run hold, and how much that is."""
    known: dict[tuple[object, ...], _Data] = {}
    checked: set[tuple[object, ...]] = set()
    by_run: dict[str, _Data] = {}
    contents: dict[str, DataContent] = {}
    for label, (spec, _) in study.runs().items():
        reads = data_fields(spec)
        if reads not in known:
            known[reads] = _read(
                spec, study.ood, generating=bool(study.searches and study.searches.generators)
            )
        data = by_run[label] = known[reads]
        if (portion := (*reads, spec.train_size, spec.validation)) not in checked:
            portion_rows(spec, data.labels)  # says so if there are too few images
            checked.add(portion)
        if "path=" in spec.label_noise and (*reads, spec.label_noise) not in checked:
            apply_noise(spec.label_noise, data.labels, data.size.classes)  # reads the file
            checked.add((*reads, spec.label_noise))
        if spec.fitted_on == "validation" and not (spec.validation or data.content.validation):
            raise UserError(
                f"fitted_on is 'validation', but no sample of '{spec.data}' is set aside for "
                "validation: give validation a share such as 0.1, or a split that sets some aside."
            )
        contents[label] = replace(
            data.content, noise=noise_digest(spec), weights=pretrained_digest(spec.network)
        )
    total = sum(data.size.bytes for data in known.values())
    return contents, {
        label: replace(data.size, kept=min(total - data.size.bytes, KEPT_BYTES))
        for label, data in by_run.items()
    }


def _read(spec: TrainSpec, ood: Sequence[str], *, generating: bool) -> _Data:
    """Read the data of a run; keep what is known of them, not the data."""
    source = load_source(spec)
    sets = [load_outliers(name, source) for name in ood]
    names = [samples.name for samples in sets]
    for name in names:
        if names.count(name) > 1:
            raise UserError(
                f"Two outlier sets are called '{name}': leave one out, or rename its file."
            )
    auxiliary = None
    if spec.auxiliary:
        check_auxiliary_name(spec.auxiliary, spec.data, ood)
        auxiliary = load_auxiliary(spec.auxiliary, source)
        check_auxiliary_images(auxiliary, [source.train, source.test, *sets])
    pairs = zip(ood, sets, strict=True) if generating else ()
    learned = [untested_part(name, source, tested) for name, tested in pairs]
    content = DataContent(
        id=source.name,
        train=source.train.digest,
        test=source.test.digest,
        ood={samples.name: samples.digest for samples in sets},
        validation="" if source.validation is None else source.validation.digest,
        sizes={samples.name: len(samples) for samples in sets},
        ood_train={n: (part.digest, len(part)) for n, part in zip(names, learned, strict=False)},
        auxiliary="" if auxiliary is None else auxiliary.digest,
        train_shape=(len(source.train), *source.train.shape),
    )
    return _Data(content, _size(source, sets, auxiliary), source.train.labels)


def _size(source: Source, outliers: Sequence[Samples], auxiliary: Samples | None) -> DataSize:
    scored = [source.test, *outliers]
    read = [source.train, *scored, *([] if auxiliary is None else [auxiliary])]
    return DataSize(
        train=len(source.train),
        scored=sum(map(len, scored)),
        shape=source.train.shape,
        classes=source.classes,
        bytes=sum(samples.values.nbytes for samples in read),
    )


def make_plan(study: Study, contents: Mapping[str, DataContent]) -> Plan:
    """Check every name in the study, then plan it."""
    from oodometer.lab.training.train import check_spec
    from oodometer.scoring import choices

    _check_protocols(study)
    # Which seed it is makes no difference, and a study may have thousands.
    specs = {label: spec for label, (spec, _) in study.runs().items()}
    alike = (spec.model_copy(update={"seed": 0}) for spec in specs.values())
    for spec in dict.fromkeys(alike):
        check_spec(spec)
    chosen = choices(study.detectors)
    labels = [choice.label for choice in chosen]
    _check_losses(study, chosen, {spec.loss for spec in specs.values()})
    if study.ours and study.ours not in labels:
        raise unknown("detector of this study, named by 'ours':", study.ours, labels)
    check_searches(study, specs, contents)
    made = plan(study, contents, chosen)
    for run in made.runs:
        for model in run.models.values():
            _check_model(model)
    return made


def _check_losses(study: Study, chosen: Sequence[Choice], losses: Collection[str]) -> None:
    """Refuse a detector that is named, but meant for classifiers of another loss than any here."""
    for choice in chosen:
        named = study.detectors != "all" and choice.text in study.detectors
        if named and not any(fits_loss(choice, loss) for loss in losses):
            raise UserError(
                f"Detector '{choice.label}' is meant for classifiers with the loss "
                f"{' or '.join(choice.detector.losses)}; those of study '{study.name}' have "
                f"{' or '.join(sorted(losses))}."
            )


def _check_model(model: ModelPlan) -> None:
    from oodometer.lab.detector_models import find_model
    from oodometer.lab.training.train import check_spec

    card = find_model(model.name)
    # A source of its own sets samples aside as it likes.
    validated = card.source is not None or bool(model.content.validation)
    try:
        check_spec(model.spec, task=card.task, validated=validated)
    except UserError as problem:
        raise UserError(f"Model '{model.name}' cannot be trained: {problem}") from None


def _check_protocols(study: Study) -> None:
    for name in study.protocols:
        score_protocol(name)  # refuses one that is not there


def build_own_networks(made: Plan, sizes: Mapping[str, DataSize]) -> None:
    """Build every network that is somebody's own once: a factory may refuse what it is offered."""
    from oodometer.lab.training.networks import build_network

    own = {
        (run.spec.network, sizes[run.label].shape, sizes[run.label].classes, run.spec.width)
        for run in made.runs
        if ":" in run.spec.network
    }
    for name, shape, classes, width in sorted(own, key=str):
        try:
            build_network(name, shape, classes, width)
        except UserError:
            raise
        except (Exception, SystemExit) as problem:
            raise UserError(
                f"Network '{name}' could not be built: {describe(problem)}"
            ) from problem


def count_done(made: Plan, store: Store) -> dict[Stage, tuple[int, int]]:
    """Per stage, how many results the store has and how many the plan wants."""
    return count_present(made.artefacts, present(made.artefacts, store))


def run_study(
    study: Study,
    store: Store,
    *,
    workers: int | None = None,
    cluster: str | None = None,
    executor: Executor | None = None,
    settings: Settings | None = None,
    strict_versions: bool = False,
    progress: Callable[[Progress], None] = lambda state: None,
    tell: Callable[[str], None] = lambda sentence: None,
) -> Outcome:
    """Do what the store lacks of a study and return its findings.

    It is done by `workers` processes of this machine, by default one per core; or on a Ray cluster,
    whose address is `cluster`; or by an executor of the caller, who will close it. No result
    depends on that. Results of another patch version of a library are reused, unless
    `strict_versions`.
    """
    settings = settings or Settings()
    _check_device_name(settings.device)  # the rest of that question costs an import of PyTorch
    _check_protocols(study)
    contents, sizes = read_data_of(study)
    finished = None if strict_versions else find_finished(study, contents, store)
    if finished is not None:
        _tell_versions(finished, store, tell)
        return finished
    check_device(settings.device, here=cluster is None)
    store.require_writable()
    with contextlib.ExitStack() as stack:
        if executor is None:
            # Its processes start while this one plans.
            executor = _open_executor(workers, cluster, store, len(contents))
            stack.callback(executor.close)
        if isinstance(executor, InProcess):
            lend(store)
            stack.callback(forget)
        made = make_plan(study, contents)
        planned = record_plan(made, store)
        drop_damaged(made, store)
        drop_incomplete(made, store)
        if strict_versions and (dropped := drop_other_versions(made, store)):
            tell(f"{dropped} results of other versions of the libraries are computed again.")
        costs = costs_of(made, sizes)
        for _ in range(3):  # damaged scores are noticed when they are collected, and made again
            runner = Runner(
                made, store, executor, costs, settings, key=planned, progress=progress, tell=tell
            )
            missing = runner.run()
            collected = collect(made, store, missing)
            if collected is not None:
                break
        else:
            raise UserError(
                f"Store '{store.address}' does not keep what is written to it: scores were damaged "
                "three times in a row."
            )
    outcome = conclude(study, *collected, store)
    record_outcome(study, contents, outcome, planned, store)
    _tell_versions(outcome, store, tell)
    return outcome


def _tell_versions(outcome: Outcome, store: Store, tell: Callable[[str], None]) -> None:
    with contextlib.suppress(DamagedError):
        for sentence in earlier_versions(store.record("tables", outcome.table_key)):
            tell(sentence)


def costs_of(made: Plan, sizes: Mapping[str, DataSize]) -> dict[str, Cost]:
    """What every training run will take, with all that follows from it."""
    from oodometer.lab.asking.probes import PROBES  # loads PyTorch
    from oodometer.lab.detector_models import find_model

    keeping = {Need("probe", name) for name, probe in PROBES.items() if probe.keeps_inputs}
    costs: dict[str, Cost] = {}
    for run in made.runs:
        size, detectors = sizes[run.label], len(run.scores)
        keeps = not keeping.isdisjoint(run.probes)
        spec = run.spec.model_copy(update={"epochs": run.last_epoch})
        cost = estimate(spec, size, detectors, keeps_inputs=keeps)
        probed = any(need.of_classifier for need in run.probes)
        costs[run.label] = replace(cost, probed=probed, kind=kind_of(run.spec, size))
        for model in run.models.values():
            if model.label in costs:  # that of a run before
                continue
            read, task = _size_of_model(model, size), find_model(model.name).task
            cost = estimate(model.spec, read, 0, task=task)
            answered = (size.scored if model.answers else 0) + cost.samples * ("" in model.answers)
            kind = kind_of(model.spec, read, model.name)
            costs[model.label] = replace(cost, extraction=answered * cost.sample, kind=kind)
    for run in made.runs:
        costs[run.label] = replace(costs[run.label], asking=dict(_asking(run, costs)))
    return costs


def _asking(run: RunPlan, costs: Mapping[str, Cost]) -> Iterator[tuple[str, Asking]]:
    """What the searches of a run ask of networks, and the scoring of what they find, by unit."""
    networks: list[TrainingPlan] = [run, *run.models.values()]
    for unit, parts in run.units.items():
        label, kind = parts[0].about.name, parts[0].kind
        if kind == "searches":
            search = run.searches[parts[0].about.dataset]
            asked = [each for each in networks if each.model in search.parents]
            name, passes = f"{label} by {search.variation}", search.passes
        elif kind == "found":
            asked = [run.models[need] for need in run.needs.get(label, ()) if need in run.models]
            settings = (run.searches[part.about.dataset].settings for part in parts)
            name, passes = unit, sum(each.images for each in settings)
        else:
            continue
        units: dict[str, float] = {}
        for each in asked or [run]:
            units[each.network] = units.get(each.network, 0.0) + passes * costs[each.label].sample
        yield unit, Asking(name, units)


def _size_of_model(model: ModelPlan, size: DataSize) -> DataSize:
    """How much a model reads: if it is trained against outliers, at most a copy of both sides."""
    if not model.outliers:
        return size
    known = min(size.train, model.portion.train_size or size.train)
    samples = 2 * max(known, model.content.sizes[model.outliers])
    # As floats, four bytes each, if one side has them; what is read counts twice in an estimate.
    copied = 4 * samples * math.prod(size.shape) // 2
    return replace(size, train=samples, classes=2, bytes=size.bytes + copied)


def _open_executor(workers: int | None, cluster: str | None, store: Store, runs: int) -> Executor:
    if cluster is not None:
        from oodometer.engine.executors.cluster import Cluster

        return Cluster(cluster, most=workers)
    if isinstance(store, MemoryStore):
        return InProcess()  # nobody else could see it
    workers = workers or os.cpu_count() or 1
    return Pool(workers, warm_up=warm_up, sweep=store.sweep, start=min(workers, runs))


def check_device(device: str, *, here: bool) -> None:
    """Check the name of a device, and whether this machine has it, if tasks run `here`."""
    _check_device_name(device)
    if device == "cpu" or not here:
        return
    import torch

    place = torch.device(device)
    number = {
        "cpu": 1,
        "cuda": torch.cuda.device_count(),
        "mps": int(torch.backends.mps.is_available()),
    }[place.type]
    if (place.index or 0) >= number:
        raise UserError(
            f"Device '{device}' cannot be used: this machine has {number} of kind {place.type}."
        )


def _check_device_name(device: str) -> None:
    if re.fullmatch(r"(cpu|cuda|mps)(:\d{1,2})?", device) is None:
        raise unknown("device", device, ["cpu", "cuda", "cuda:0", "mps"])
