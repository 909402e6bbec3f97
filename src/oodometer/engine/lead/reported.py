"""What the report of a study shows beside its stored findings, and where everything comes from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.metadata import version
from shlex import quote

import oodometer
from oodometer.engine.lead.searched import with_searches
from oodometer.engine.lead.trained import training_finding
from oodometer.engine.plan.study_index import Outcome
from oodometer.engine.stores import Store
from oodometer.finding import Finding, Origin
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
    stored = [
        replace(finding, origin=Origin(key, f"oodometer show {key[:12]} --store {quote(address)}"))
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
