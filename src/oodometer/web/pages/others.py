"""Pages about single artefacts, submissions, and the interface for programs."""

from __future__ import annotations

import re
import shlex
import sqlite3
import time
from collections.abc import Mapping

from oodometer.engine.stores import KINDS, DamagedError, Kind
from oodometer.engine.upkeep.find import parents_of
from oodometer.study import text_without_folders
from oodometer.web import queries
from oodometer.web.index import Place
from oodometer.web.site import NotFoundError, Shown, Site

_DIGEST = re.compile(r"[0-9a-f]{8,64}")
_MOST_PARENTS = 200


def place_of(site: Site, slug: str) -> Place:
    """The store that a part of a route names."""
    for place in site.index.places:
        if place.slug == slug:
            return place
    raise NotFoundError(f"There is no store '{slug[:60]}'.")


def record_of(site: Site, slug: str, digest: str) -> tuple[Place, Kind, dict[str, object]]:
    """The record of an artefact by its whole digest, which alone is looked for in the store."""
    place = place_of(site, slug)
    if not _DIGEST.fullmatch(digest):
        raise NotFoundError(f"'{digest[:60]}' is not a digest.")
    for kind in KINDS:
        if place.store.has(kind, digest):
            try:
                record = place.store.record(kind, digest)
            except DamagedError as problem:
                raise NotFoundError(f"{problem}; the next run recomputes it.") from None
            made_by = record.get("made_by")
            if isinstance(made_by, dict) and "machine" in made_by:  # without the name of the host
                made_by["machine"] = str(made_by["machine"]).partition(", ")[2]
            return place, kind, _for_others(record) if site.for_others else record
    raise NotFoundError(f"Store '{slug}' has no result {digest}.")


def _for_others(record: dict[str, object]) -> dict[str, object]:
    """A record whose files and folders are given by their last names."""

    def shown(value: object) -> object:
        if isinstance(value, Mapping):
            return {name: shown(own) for name, own in value.items()}
        return text_without_folders(value) if isinstance(value, str) else value

    return {name: shown(value) for name, value in record.items()}


def show_command(place: Place, digest: str) -> str:
    """The command that says how a result came about."""
    return f"oodometer show {digest} --store {shlex.quote(place.address)}"


def artefact(site: Site, connection: sqlite3.Connection, parts: list[str]) -> Shown:
    """Route: artefacts/STORE/DIGEST."""
    if len(parts) != 2:
        raise NotFoundError("A result is found by artefacts/STORE/DIGEST.")
    place, kind, record = record_of(site, *parts)
    made_from = record["made_from"]
    assert isinstance(made_from, dict)
    parents = made_from.pop("parents", None)
    record["made_from"] = {**made_from, "parents": (parents or [])[:_MOST_PARENTS]}
    saved = time.gmtime(float(str(record.get("saved", 0.0))))
    return Shown(
        "artefact.html.j2",
        f"{kind} {parts[1][:12]}",
        {
            "place": place,
            "kind": kind,
            "digest": parts[1],
            "command": show_command(place, parts[1]),
            "facts": [
                ("kind", kind),
                ("digest", parts[1]),
                ("bytes", f"{int(str(record.get('bytes', 0))):,}"),
                ("sha256", str(record.get("sha256", ""))),
                ("saved", time.strftime("%Y-%m-%d %H:%M:%S UTC", saved)),
            ],
            "made_by": _pairs(record.get("made_by")),
            "made_from": _pairs(made_from),
            "parents": list(parents_of(place.store, record)),
        },
    )


def _pairs(fields: object) -> list[tuple[str, str]]:
    """Fields as texts, those within another named after it."""
    if not isinstance(fields, Mapping):
        return []
    found = []
    for name, value in fields.items():
        if isinstance(value, Mapping):
            found += [(f"{name}: {inner}", str(what)[:2000]) for inner, what in value.items()]
        else:
            found.append((str(name), str(value)[:2000]))
    return found


def submissions(site: Site, connection: sqlite3.Connection, parts: list[str]) -> Shown:
    """Which submissions were read, and why others were refused."""
    if parts:
        raise NotFoundError("There is only one page of submissions.")
    checked = queries.submissions(connection)
    return Shown("submissions.html.j2", "Submissions", {"checked": checked})


def api(site: Site, connection: sqlite3.Connection, parts: list[str]) -> Shown:
    """How programs read the same."""
    if parts:
        raise NotFoundError(f"There is no such part of the API: '{'/'.join(parts)[:60]}'.")
    return Shown("api.html.j2", "API", {})
