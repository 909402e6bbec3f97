"""From stored scores to one table, and from it to findings; both are kept."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oodometer.engine.plan.artefacts import Artefact, present
from oodometer.engine.plan.imports import imported_cells
from oodometer.engine.plan.keys import code_version, digest
from oodometer.engine.plan.plan import Plan
from oodometer.engine.plan.study_index import (
    Outcome,
    PlanRecord,
    plan_record,
    record_plan,
    with_imports,
)
from oodometer.engine.stores import DamagedError, Store
from oodometer.engine.versions import Versions, mixed_versions
from oodometer.engine.work.codecs import (
    REFUSED,
    array_to_text,
    bytes_to_arrays,
    bytes_to_table,
)
from oodometer.errors import UserError
from oodometer.factors import Factor
from oodometer.finding import Claim, Finding, from_json, to_json
from oodometer.protocols import PROTOCOLS, score_protocol
from oodometer.protocols.common.copies import copy_caveats
from oodometer.protocols.common.learned import judge_learning
from oodometer.protocols.common.steadiness import unsteady_caveats
from oodometer.score_files import table_to_bytes
from oodometer.scores import Missing, ScoreRow, ScoreTable, SetInfo
from oodometer.study import Study
from oodometer.study.fields import factor_of

# Where a table comes from and what is made of it later do not change what is in it.
_BESIDE = ("errors", "engine/plan", "engine/stores",
           "finding", "metrics", "protocols", "study")  # fmt: skip
_SCORES = ("scores", "found")  # kinds that the rows of a table are read from
_PROTOCOL_SEED = 0  # protocols that draw random numbers draw the same ones every time


def gather(plan: PlanRecord, store: Store) -> ScoreTable:
    """The score table of a study as far as the store has it; reads only, and needs no PyTorch.

    What is damaged is left out, as if it were not there yet. What failed is missing.
    """
    failed = [*read_failures(plan, store), *_lost_imports(plan, store)]
    return _read(with_imports(plan, store), store, failed, _Origins())[0]


def collect(made: Plan, store: Store, failed: list[Missing]) -> tuple[str, ScoreTable] | None:
    """Gather all scores of a study into one table, which is itself kept.

    None: some scores were damaged, and have been discarded so that they are made again.
    """
    return collect_plan(plan_record(made), lambda: record_plan(made, store), store, failed)


def collect_plan(
    plan: PlanRecord, plan_key: Callable[[], str], store: Store, failed: list[Missing]
) -> tuple[str, ScoreTable] | None:
    """Collect the scores of a plan record, and those that were imported for it."""
    plan = with_imports(plan, store)
    scored = [part for part in plan.artefacts if part.kind in _SCORES]
    has = present(scored, store)
    cells = [part for part in scored if has(part)]
    if not any(part.kind == "scores" for part in cells):
        raise _nothing_scored(plan, failed)
    # Settings of the grid that failed, and what is refused for good, stand with the scores.
    parts = [replace(p, traceback="") for p in failed if p.failure]
    parts += _lost_imports(plan, store)
    key = _table_key(plan, cells, parts)
    try:
        if store.has("tables", key):
            return key, bytes_to_table(store.view("tables", key))
    except DamagedError:
        store.discard("tables", key)
    origins = _Origins()
    table, damaged = _read(plan, store, parts, origins)
    for artefact in damaged:
        store.discard(artefact.kind, artefact.key)
    if damaged:
        return None
    about = {"study": plan.study.name, "cells": len(cells), "plan": plan_key()}
    about |= {"versions": origins.versions.counted, "unsteady": origins.unsteady}
    about |= {"imported": origins.imported}
    store.save("tables", key, table_to_bytes(table), about)
    return key, table


@dataclass
class _Origins:
    """What the records of scores and outputs say beside the table: it becomes caveats."""

    versions: Versions = field(default_factory=Versions)
    unsteady: dict[str, Mapping[str, float]] = field(default_factory=dict)  # run -> see `asking`
    imported: dict[str, str] = field(default_factory=dict)  # detector -> file that was imported


def _made_from(record: Mapping[str, object]) -> dict[str, Any]:
    about = record.get("made_from")
    return about if isinstance(about, dict) else {}


def _table_key(plan: PlanRecord, cells: list[Artefact], failed: list[Missing]) -> str:
    """What failed, and why, belongs to the key: repaired, it is another table."""
    reasons = sorted((part.run, part.detector, part.dataset, part.reason) for part in failed)
    code = code_version("engine/work/codecs", "engine/lead/collect", apart_from=_BESIDE)
    named = [(c.about.run, c.about.name, c.about.dataset, c.key) for c in cells]
    factors = [vars(factor) for factor in _factors(plan)]
    return digest("table", code, named, plan.runs, factors, reasons, plan.id)


def _nothing_scored(plan: PlanRecord, failed: list[Missing]) -> UserError:
    # What fails first says most: a run of the study, a network for its detectors, a detector.
    first = sorted(
        failed,
        key=lambda part: (bool(part.setting), bool(part.detector), part.run not in plan.runs),
    )
    reason = f" {first[0]}" if first else ""
    return UserError(f"Nothing of study '{plan.study.name}' could be scored.{reason}")


def _read(
    plan: PlanRecord, store: Store, failed: Iterable[Missing], origins: _Origins
) -> tuple[ScoreTable, list[Artefact]]:
    """Read all scores that are there; return what is damaged, too, and note their origins."""
    rows: list[ScoreRow] = []
    missing = {(p.run, p.detector, p.setting, p.dataset): p for p in failed}
    correct: dict[str, NDArray[np.bool_]] = {}
    chance: dict[str, float] = {}
    damaged: list[Artefact] = []
    wanted = [part for part in plan.artefacts if _is_read(part, plan)]
    has = present(wanted, store)
    for artefact in filter(has, wanted):
        try:
            if artefact.kind in _SCORES:
                rows += _read_rows(artefact, plan, store, missing, origins)
                continue
            if (known := _read_correct(artefact, store)) is not None:
                correct[artefact.about.run], chance[artefact.about.run] = known
            if unsteady := _made_from(store.record("outputs", artefact.key)).get("unsteady"):
                origins.unsteady[artefact.about.run] = unsteady
        except DamagedError:
            damaged.append(artefact)
    if not any(row.dataset == plan.id for row in rows):
        rows = []  # of a study that has just begun
    parts = tuple(part for _, part in sorted(missing.items()))
    table = ScoreTable(
        plan.id,
        tuple(rows),
        plan.runs,
        parts,
        correct,
        plan.same_samples,
        _factors(plan),
        chance=chance,
        sets=_sets(plan) | _found_sets(plan, rows),
    )
    return table, damaged


def _sets(plan: PlanRecord) -> dict[str, SetInfo]:
    """The digests of the data sets that are the same in every run."""
    found: dict[str, set[str]] = {}
    for sets in plan.sets.values():
        for name, own in sets.items():
            found.setdefault(name, set()).add(own)
    return {
        name: SetInfo("id" if name == plan.id else "ood", digest=own.pop())
        for name, own in found.items()
        if len(own) == 1
    }


def _found_sets(plan: PlanRecord, rows: Iterable[ScoreRow]) -> dict[str, SetInfo]:
    scored = {row.dataset for row in rows}
    return {name: info for name, info in plan.found_sets.items() if name in scored}


def _factors(plan: PlanRecord) -> tuple[Factor, ...]:
    return tuple(factor_of(factor.field) for factor in plan.study.factors)


def _is_read(artefact: Artefact, plan: PlanRecord) -> bool:
    """Whether the table is made of it: scores, and outputs on the ID set."""
    of_id = artefact.kind == "outputs" and artefact.about.dataset == plan.id
    return artefact.about.run in plan.runs and (artefact.kind in _SCORES or of_id)


def _read_rows(
    cell: Artefact,
    plan: PlanRecord,
    store: Store,
    missing: dict[tuple[str, str, str, str], Missing],
    origins: _Origins,
) -> Iterator[ScoreRow]:
    """The rows of one artefact; settings that it lacks are added to what is missing."""
    payload, record = store.read(cell.kind, cell.key)
    arrays, about = bytes_to_arrays(payload), _made_from(record)
    if source := about.get("imported"):
        origins.imported[cell.about.name] = str(source)
    else:
        origins.versions.add(record)
    learned_from, settings = about.get("learned_from", {}), about.get("settings", {})
    run, label = cell.about.run, cell.about.name
    if REFUSED in arrays:
        reason = array_to_text(arrays.pop(REFUSED))
        missing[run, label, "", ""] = Missing(reason, run, label, lasting=True)
    for setting, scores in arrays.items():
        text = "" if setting == "-" else setting
        default = text == plan.settings[label][0]
        yield ScoreRow(
            run,
            label,
            text,
            cell.about.dataset,
            scores,
            default,
            learned_from.get(text, ""),
            settings.get(text, {}),
        )
    for setting, reason in about.get("missing", ()):
        missing[run, label, setting, ""] = Missing(reason, run, label, setting)


def _read_correct(outputs: Artefact, store: Store) -> tuple[NDArray[np.bool_], float] | None:
    """Which samples are right, and the share of one class; None if the test set has no labels."""
    arrays = bytes_to_arrays(store.view("outputs", outputs.key))
    labels = arrays["labels"]
    if (labels < 0).any():
        return None
    right = np.asarray(arrays["logits"].argmax(1) == labels)
    return right, float(np.bincount(labels).max() / len(labels))


def _lost_imports(plan: PlanRecord, store: Store) -> Iterator[Missing]:
    imported = list(imported_cells(plan, store))
    has = present(imported, store)
    for part in imported:
        if not has(part):
            why = "its imported scores were damaged or removed: import them again"
            yield Missing(why, part.about.run, part.about.name, lasting=True)


def read_failures(plan: PlanRecord, store: Store) -> Iterator[Missing]:
    """What could not be done, as the store has noted it."""
    keys = plan.failures.values()
    for key in sorted(store.present("failures", keys)):
        with contextlib.suppress(DamagedError, ValueError, TypeError):
            yield replace(Missing(**json.loads(store.load("failures", key))), traceback="")


def conclude(study: Study, table_key: str, table: ScoreTable, store: Store) -> Outcome:
    """Apply the study's protocols to its table; findings are kept too."""
    findings, keys = [], []
    record = store.record("tables", table_key)
    unsteady = unsteady_caveats(_made_from(record).get("unsteady", {}), len(table.runs))
    caveats = [
        *unsteady,
        *copy_caveats(table),
        *mixed_versions(record),
        *_imported(_made_from(record).get("imported", {})),
        *_auxiliary_sets(study),
    ]
    learning = judge_learning(table, keep=study.keep_unlearned, expected=study.accuracy)
    judged = code_version("protocols/common/learned", apart_from=("errors", "finding"))
    for place, name in enumerate(study.protocols):
        module = score_protocol(name).__module__.removeprefix("oodometer.").replace(".", "/")
        code = [code_version(module, apart_from=("errors",)), judged]
        told = [*learning.caveats, learning.warning * (not place)]
        key = digest("finding", name, code, study.ours, table_key, caveats, told)
        finding = _load_finding(key, store)
        if finding is None:
            finding = _apply(name, learning.table, study.ours)
            finding = learning.tell(finding, is_first=not place)
            finding = replace(finding, caveats=(*finding.caveats, *caveats))
            about = {"study": study.name, "protocol": name, "seed": _PROTOCOL_SEED}
            about |= {"parents": [table_key]}
            store.save("findings", key, to_json(finding).encode(), about)
        findings.append(finding)
        keys.append(key)
    return Outcome(study, tuple(findings), tuple(keys), table_key, table.missing)


def _imported(sources: Mapping[str, str]) -> Iterator[str]:
    """Name detectors whose scores were computed elsewhere."""
    if sources:
        named = ", ".join(f"{name}, from {source}" for name, source in sources.items())
        yield (
            f"Imported scores: {named}. They were computed elsewhere; the samples are those of the "
            "study by their digests, and what the detector was fitted on is not known."
        )


def _auxiliary_sets(study: Study) -> Iterator[str]:
    """Say which outliers detector models may have learned from."""
    names = sorted({spec.auxiliary for spec, _ in study.runs().values()} - {""})
    if names:
        yield (
            "Detector models that learn from auxiliary outliers were trained with "
            f"{' or '.join(names)}; detectors without such outliers know less."
        )


def _apply(name: str, table: ScoreTable | None, ours: str) -> Finding:
    """Apply a protocol; one that this table does not allow says why, and the others continue."""
    try:
        if table is None:
            raise UserError(
                "None of the classifiers learned. A study that compares such classifiers says "
                "keep_unlearned: true."
            )
        return score_protocol(name, ours)(table, np.random.default_rng(_PROTOCOL_SEED))
    except UserError as problem:
        words = name.replace("_", " ")
        claim = Claim(
            f"The protocol {words} cannot conclude anything.", "undecided", str(problem), "missing"
        )
        return Finding(name, words.capitalize(), PROTOCOLS[name].description, (claim,))


def _load_finding(key: str, store: Store) -> Finding | None:
    if not store.has("findings", key):
        return None
    try:
        return from_json(store.load("findings", key).decode())
    except DamagedError:
        store.discard("findings", key)
        return None
