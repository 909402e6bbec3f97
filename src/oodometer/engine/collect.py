"""From stored scores to findings; and a memory of studies that are finished."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import entry_points

import numpy as np

from oodometer.engine.codecs import bytes_to_arrays, bytes_to_table, table_to_bytes
from oodometer.engine.keys import code_version, digest, package_version
from oodometer.engine.plan import DataContent, Plan, RunPlan
from oodometer.engine.store import DamagedError, Store
from oodometer.errors import UserError
from oodometer.finding import Finding, from_json, to_json
from oodometer.protocols import PROTOCOLS
from oodometer.scores import Missing, ScoreRow, ScoreTable
from oodometer.study import Study

_PROTOCOL_SEED = 0  # protocols that draw random numbers draw the same ones every time


@dataclass(frozen=True)
class Outcome:
    """What a study came to."""

    study: Study
    findings: tuple[Finding, ...]
    finding_keys: tuple[str, ...]
    table_key: str
    missing: tuple[Missing, ...]


def collect(made: Plan, store: Store, failed: list[Missing]) -> tuple[str, ScoreTable] | None:
    """Bring all scores of a study into one table, which is itself kept.

    None: some scores were damaged, and have been discarded so that they are made again.
    """
    cells = [
        (run, label, name, key)
        for run in made.runs
        for label, keys in run.scores.items()
        for name, key in keys.items()
        if store.has("scores", key)
    ]
    if not cells:
        telling = sorted(failed, key=lambda part: bool(part.setting))
        reason = f" {telling[0]}" if telling else ""
        raise UserError(f"Nothing of study '{made.study.name}' could be scored.{reason}")
    # What failed, and why, belongs to the key: repaired, it is another table.
    # Settings of the grid are not in it: the scores themselves tell which of them failed.
    parts = [replace(part, traceback="") for part in failed if not part.setting]
    reasons = sorted((part.run, part.detector, part.reason) for part in parts)
    runs = {run.label: dict(run.levels) for run in made.runs}
    key = digest("table", [(c[0].label, *c[1:]) for c in cells], runs, reasons, made.id)
    try:
        if store.has("tables", key):
            return key, bytes_to_table(store.load("tables", key))
    except DamagedError:
        store.discard("tables", key)
    rows: list[ScoreRow] = []
    missing = {(part.run, part.detector, part.setting): part for part in parts}
    damaged = False
    for run, label, name, cell_key in cells:
        try:
            arrays = bytes_to_arrays(store.load("scores", cell_key))
            about = store.record("scores", cell_key)["made_from"]
        except DamagedError:
            store.discard("scores", cell_key)
            damaged = True
            continue
        for setting, scores in arrays.items():
            text = "" if setting == "-" else setting
            default = text == made.default_settings[label]
            rows.append(ScoreRow(run.label, label, text, name, scores, default))
        for setting, reason in about.get("missing", ()) if isinstance(about, dict) else ():
            part = Missing(reason, run.label, label, setting)
            missing[part.run, label, setting] = part
    correct = _collect_correct(made.runs, store)
    if damaged or correct is None:
        return None
    told = tuple(part for _, part in sorted(missing.items()))
    table = ScoreTable(made.id, tuple(rows), runs, told, correct, made.same_samples)
    store.save("tables", key, table_to_bytes(table), {"study": made.study.name})
    return key, table


def _collect_correct(
    runs: tuple[RunPlan, ...], store: Store
) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.bool_]]] | None:
    correct = {}
    damaged = False
    for run in runs:
        if store.has("correct", run.correct):
            try:
                correct[run.label] = bytes_to_arrays(store.load("correct", run.correct))["correct"]
            except DamagedError:
                store.discard("correct", run.correct)
                damaged = True
    return None if damaged else correct


def conclude(study: Study, table_key: str, table: ScoreTable, store: Store) -> Outcome:
    """Apply the study's protocols to its table; findings are kept too."""
    code = code_version("protocols", "stats", "metrics", "scores", "finding")
    findings, keys = [], []
    for name in study.protocols:
        key = digest("finding", name, code, table_key)
        finding = _load_finding(key, store)
        if finding is None:
            finding = PROTOCOLS[name](table, np.random.default_rng(_PROTOCOL_SEED))
            store.save("findings", key, to_json(finding).encode(), {"parents": [table_key]})
        findings.append(finding)
        keys.append(key)
    return Outcome(study, tuple(findings), tuple(keys), table_key, table.missing)


def _load_finding(key: str, store: Store) -> Finding | None:
    if not store.has("findings", key):
        return None
    try:
        return from_json(store.load("findings", key).decode())
    except DamagedError:
        store.discard("findings", key)
        return None


def remember(
    study: Study, contents: Mapping[str, DataContent], outcome: Outcome, store: Store
) -> None:
    """Note what a study came to, so that the same study is known to be finished at once."""
    note = {
        "study": study.model_dump(mode="json"),
        "findings": outcome.finding_keys,
        "table": outcome.table_key,
        "missing": [asdict(part) for part in outcome.missing],
    }
    key = _study_key(study, contents)
    store.save("studies", key, json.dumps(note, indent=1).encode(), {"study": study.name})


def recall(study: Study, contents: Mapping[str, DataContent], store: Store) -> Outcome | None:
    """Return what a finished study came to, if nothing that it depends on has changed.

    Neither PyTorch nor a detector is imported for this, so it is quick.
    """
    named = study.detectors if study.detectors != "all" else ()
    networks = [spec.network for spec, _ in study.runs().values()]
    own = any(":" in name for name in (*named, *networks))
    if own or entry_points(group="oodometer.detectors"):
        return None  # other people's code: only importing it tells whether it changed
    key = _study_key(study, contents)
    if not store.has("studies", key):
        return None
    try:
        outcome = read_outcome(key, store)
    except DamagedError:
        store.discard("studies", key)
        return None
    finished = all(part.setting for part in outcome.missing)
    return outcome if finished else None  # what failed is tried again


def read_outcome(key: str, store: Store) -> Outcome:
    """Read a remembered study from the store."""
    note = json.loads(store.load("studies", key))
    findings = tuple(
        from_json(store.load("findings", finding).decode()) for finding in note["findings"]
    )
    return Outcome(
        Study.model_validate(note["study"]),
        findings,
        tuple(note["findings"]),
        note["table"],
        tuple(Missing(**part) for part in note["missing"]),
    )


def _study_key(study: Study, contents: Mapping[str, DataContent]) -> str:
    spec = study.model_dump(mode="json")
    spec["base"].pop("data")  # known by its content
    spec.pop("ood")
    return digest("study", spec, {k: asdict(v) for k, v in contents.items()}, package_version())


def studies_in(store: Store) -> dict[str, Outcome]:
    """The studies that a store remembers, by name, the latest run of each; latest last."""
    notes = []
    for key in store.keys("studies"):
        try:
            notes.append((store.saved_at("studies", key), key, read_outcome(key, store)))
        except DamagedError:
            continue
    return {outcome.study.name: outcome for *_, outcome in sorted(notes, key=lambda note: note[:2])}
