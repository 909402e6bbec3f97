"""What the searches of a study have found, for its report: pictures, and how they went."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from oodometer.engine.plan.study_index import Outcome, PlanRecord, read_plan
from oodometer.engine.stores import DamagedError, Store
from oodometer.engine.work.codecs import array_to_text, bytes_to_arrays, bytes_to_table
from oodometer.finding import Finding
from oodometer.searches.gallery import Found, galleries, searches_table


def with_searches(findings: Sequence[Finding], outcome: Outcome, store: Store) -> Sequence[Finding]:
    """The findings of a study; that of the worst case with what the searches have found.

    Pictures are not stored with the findings: they are in the results of the searches.
    """
    if not any(finding.protocol == "worst_case" for finding in findings):
        return findings
    try:
        table = bytes_to_table(store.view("tables", outcome.table_key))
        about = store.record("tables", outcome.table_key).get("made_from")
        plan = read_plan(str(about.get("plan")) if isinstance(about, dict) else "", store)
    except DamagedError:
        return findings
    read = list(_read(plan, store))
    found = [made for made, _ in read]
    if not found:
        return findings
    notes: dict[str, list[str]] = {}
    for made, said in read:
        for note in said:
            notes.setdefault(note, []).append(f"{made.run}: {made.name}")
    caveats = tuple(
        f"{names[0]}{f' and {len(names) - 1} more' * (len(names) > 1)}: {note}"
        for note, names in notes.items()
    )
    return tuple(
        replace(
            finding,
            tables=(*finding.tables, searches_table(table, found)),
            galleries=(*finding.galleries, *galleries(table, found)),
            caveats=(*finding.caveats, *caveats),
        )
        if finding.protocol == "worst_case"
        else finding
        for finding in findings
    )


def _read(plan: PlanRecord, store: Store) -> Iterator[tuple[Found, list[str]]]:
    """All searches of a plan that are there, with their notes."""
    for artefact in plan.artefacts:
        if artefact.kind != "searches":
            continue
        try:
            arrays = bytes_to_arrays(store.load("searches", artefact.key))
        except DamagedError:  # or it failed
            continue
        made = Found(
            artefact.about.run,
            artefact.about.dataset,
            arrays["shown/rows"],
            arrays["shown/clean"],
            arrays["shown/found"],
            arrays["clean_scores"],
            arrays["scores"],
            arrays["latent"],
            float(np.mean(arrays["acceptance"])),
            float(np.mean(arrays["effective"])),
            int(arrays["asked"]),
        )
        yield made, array_to_text(arrays["notes"]).splitlines()
