"""From stored scores to one table, and from it to findings; both are kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from oodometer.engine.plan.keys import code_version, digest
from oodometer.engine.plan.notes import Outcome, announce
from oodometer.engine.plan.plan import Plan, RunPlan
from oodometer.engine.stores import DamagedError, Store
from oodometer.engine.work.codecs import (
    REFUSED,
    array_to_text,
    bytes_to_arrays,
    bytes_to_table,
    table_to_bytes,
)
from oodometer.errors import UserError
from oodometer.finding import Claim, Finding, from_json, to_json
from oodometer.protocols import PROTOCOLS
from oodometer.scores import Missing, ScoreRow, ScoreTable
from oodometer.study import Study
from oodometer.study.fields import factor_of

# Where a table comes from and what is made of it later do not change what is in it.
_BESIDE = ("errors", "engine/plan", "engine/stores",
           "finding", "metrics", "protocols", "study")  # fmt: skip
_PROTOCOL_SEED = 0  # protocols that draw random numbers draw the same ones every time


def collect(made: Plan, store: Store, failed: list[Missing]) -> tuple[str, ScoreTable] | None:
    """Bring all scores of a study into one table, which is itself kept.

    None: some scores were damaged, and have been discarded so that they are made again.
    """
    there = store.present("scores", (key for run in made.runs for key in run.score_keys))
    cells = [
        (run, label, name, key)
        for run in made.runs
        for label, keys in run.scores.items()
        for name, key in keys.items()
        if key in there
    ]
    if not cells:
        runs_wanted = {run.label for run in made.runs}
        # What fails first tells most: a run of the study, a network for its detectors, a detector.
        telling = sorted(
            failed,
            key=lambda part: (bool(part.setting), bool(part.detector), part.run not in runs_wanted),
        )
        reason = f" {telling[0]}" if telling else ""
        raise UserError(f"Nothing of study '{made.study.name}' could be scored.{reason}")
    # What failed, and why, belongs to the key: repaired, it is another table.
    # Settings of the grid are not in it: the scores themselves tell which of them failed.
    # What is refused for good is kept as scores are.
    parts = [replace(p, traceback="") for p in failed if not p.setting and not p.lasting]
    reasons = sorted((part.run, part.detector, part.reason) for part in parts)
    runs = {run.label: dict(run.levels) for run in made.runs}
    factors = tuple(factor_of(factor.field) for factor in made.study.factors)
    code = code_version("engine/work/codecs", "engine/lead/collect", apart_from=_BESIDE)
    labels = [(run.label, *rest) for run, *rest in cells]
    key = digest("table", code, labels, runs, [vars(f) for f in factors], reasons, made.id)
    try:
        if store.has("tables", key):
            return key, bytes_to_table(store.view("tables", key))
    except DamagedError:
        store.discard("tables", key)
    rows: list[ScoreRow] = []
    missing = {(part.run, part.detector, part.setting): part for part in parts}
    damaged = False
    for run, label, name, cell_key in cells:
        try:
            payload, record = store.read("scores", cell_key)
            arrays, about = bytes_to_arrays(payload), record["made_from"]
        except DamagedError:
            store.discard("scores", cell_key)
            damaged = True
            continue
        if REFUSED in arrays:
            reason = array_to_text(arrays.pop(REFUSED))
            missing[run.label, label, ""] = Missing(reason, run.label, label, lasting=True)
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
    table = ScoreTable(made.id, tuple(rows), runs, told, correct, made.same_samples, factors)
    about = {"study": made.study.name, "cells": len(cells), "plan": announce(made, store)}
    store.save("tables", key, table_to_bytes(table), about)
    return key, table


def _collect_correct(
    runs: tuple[RunPlan, ...], store: Store
) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.bool_]]] | None:
    correct = {}
    damaged = False
    for run in runs:
        if store.has("correct", run.correct):
            try:
                known = bytes_to_arrays(store.load("correct", run.correct))["correct"]
                if known.size:
                    correct[run.label] = known
            except DamagedError:
                store.discard("correct", run.correct)
                damaged = True
    return None if damaged else correct


def conclude(study: Study, table_key: str, table: ScoreTable, store: Store) -> Outcome:
    """Apply the study's protocols to its table; findings are kept too."""
    findings, keys = [], []
    for name in study.protocols:
        module = PROTOCOLS[name].__module__.removeprefix("oodometer.").replace(".", "/")
        code = code_version(module, apart_from=("errors",))
        key = digest("finding", name, code, table_key)
        finding = _load_finding(key, store)
        if finding is None:
            finding = _apply(name, table)
            about = {"study": study.name, "protocol": name, "seed": _PROTOCOL_SEED}
            about |= {"parents": [table_key]}
            store.save("findings", key, to_json(finding).encode(), about)
        findings.append(finding)
        keys.append(key)
    return Outcome(study, tuple(findings), tuple(keys), table_key, table.missing)


def _apply(name: str, table: ScoreTable) -> Finding:
    """Apply a protocol; one that this table does not allow says why, and the others go on."""
    try:
        return PROTOCOLS[name](table, np.random.default_rng(_PROTOCOL_SEED))
    except UserError as problem:
        words = name.replace("_", " ")
        claim = Claim(f"The protocol {words} cannot conclude anything.", "undecided", str(problem))
        return Finding(name, words.capitalize(), "", (claim,))


def _load_finding(key: str, store: Store) -> Finding | None:
    if not store.has("findings", key):
        return None
    try:
        return from_json(store.load("findings", key).decode())
    except DamagedError:
        store.discard("findings", key)
        return None
