"""What the report of a study shows beside its stored findings, and where everything comes from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.metadata import version
from shlex import quote

import oodometer
from oodometer.engine.lead.searched import with_searches
from oodometer.engine.lead.trained import training_finding
from oodometer.engine.plan.study_index import Outcome, PlanRecord, read_plan, with_imports
from oodometer.engine.stores import DamagedError, Store
from oodometer.finding import CellOrigins, Finding, Origin
from oodometer.study import to_yaml


@dataclass(frozen=True)
class ReportContent:
    """All that a report of a study is made of."""

    title: str
    findings: tuple[Finding, ...]
    provenance: tuple[tuple[str, str], ...]


def report_content(
    outcome: Outcome, store: Store, address: str, *, trained: bool = True
) -> ReportContent:
    """Findings with their origins, what searches found, and how detector models were trained.

    `address` is how the store is named in commands. Without `trained`, no model is read.
    """
    plan = _plan_of(outcome, store)
    cells = None if plan is None else _cells(plan, address)
    stored = [
        replace(
            finding,
            origin=Origin(key, f"oodometer show {_short(key)} --store {quote(address)}", cells),
            families={} if plan is None else plan.families,
        )
        for finding, key in zip(outcome.findings, outcome.finding_keys, strict=True)
    ]
    models = training_finding(outcome, store) if trained else None
    return ReportContent(
        f"Oodometer: {outcome.study.name}",
        (*with_searches(stored, outcome, store), *([] if models is None else [models])),
        (
            ("study", outcome.study.name),
            ("oodometer", oodometer.__version__),
            ("torch", version("torch")),
            ("score table", outcome.table_key),
            ("study file (YAML)", to_yaml(outcome.study)),
        ),
    )


def _plan_of(outcome: Outcome, store: Store) -> PlanRecord | None:
    """The plan that the scores of a study were made by; None if it cannot be read any more."""
    try:
        about = store.record("tables", outcome.table_key).get("made_from")
        plan = read_plan(str(about.get("plan")) if isinstance(about, dict) else "", store)
        return with_imports(plan, store)
    except DamagedError:
        return None


def _cells(plan: PlanRecord, address: str) -> CellOrigins:
    """Which stored scores the numbers of each detector on each set are made of."""
    runs = tuple(plan.runs)
    keys: dict[str, dict[str, dict[str, str]]] = {}
    for part in plan.artefacts:
        if part.kind == "scores" and part.about.run in plan.runs:
            by_set = keys.setdefault(part.about.name, {})
            by_set.setdefault(part.about.dataset, {})[part.about.run] = _short(part.key)
    digests = {
        detector: {name: tuple(own.get(run, "") for run in runs) for name, own in by_set.items()}
        for detector, by_set in keys.items()
    }
    return CellOrigins(f"oodometer show --store {quote(address)}", plan.id, runs, digests)


def _short(key: str) -> str:
    """As much of a digest as `oodometer show` needs."""
    return key[:12]
