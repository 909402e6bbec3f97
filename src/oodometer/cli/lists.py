"""The command for registered names: list."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from oodometer.cli.common import app, console, say
from oodometer.cli.studies import STUDIES
from oodometer.errors import unknown

if TYPE_CHECKING:
    from oodometer.lab.detector_models import DetectorModel
    from oodometer.registry import Detector

_OWN = "own network"  # which one, --json tells
_ANY_WIDTH = 10_000  # more than any line has


@app.command("list")
def list_known(
    what: Annotated[
        str,
        typer.Argument(
            metavar="detectors|datasets|networks|studies|protocols|compatibility",
            help="What to list; compatibility: the outlier sets that OD-test allows.",
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with all details.")] = False,
) -> None:
    """List detectors, data sets, networks, studies or protocols."""
    listings = {
        "detectors": _list_detectors,
        "datasets": _list_datasets,
        "networks": _list_networks,
        "studies": _list_studies,
        "protocols": _list_protocols,
        "compatibility": _list_compatibility,
    }
    if what not in listings:
        raise unknown("list", what, listings)
    entries = listings[what]()
    if as_json:
        say(json.dumps(entries, indent=1))
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    # All of it would leave no room for names; --json and the docs have the rest.
    hidden = {"defaults", "grid", "licence", "summary" if what == "detectors" else "paper"}
    columns = [key for key in entries[0] if key not in hidden]
    for column in columns:
        table.add_column(column, no_wrap=column == "name", overflow="fold")
    for entry in entries:
        table.add_row(*(_shortened(column, entry[column]) for column in columns))
    screen = console()
    if not screen.is_terminal:  # a line per name, for grep and the like
        screen.width = _ANY_WIDTH
    screen.print(table)


def _shortened(column: str, value: object) -> str:
    """A cell as text; of a paper, its authors and year; of needs, what a user must have."""
    if column == "needs" and isinstance(value, list):
        value = list(dict.fromkeys(_OWN if need.startswith("model:") else need for need in value))
    text = _as_text(value)
    return re.split(r",? *(?:arXiv|doi|https?):", text)[0] if column == "paper" else text


def _list_detectors() -> list[dict[str, object]]:
    import oodometer.builtin  # noqa: F401 - importing registers them
    from oodometer.needs import in_text
    from oodometer.registry import BROKEN_PLUGINS, DETECTORS

    for name, reason in BROKEN_PLUGINS.items():
        say(f"oodometer: plugin '{name}' could not be loaded: {reason}", err=True)
    return [
        {
            "name": card.name,
            "summary": card.summary,
            "paper": card.paper,
            "trained on": _trained_on(card),
            "needs": in_text(card.needs),
            "cost": _cost(card),
            "defaults": card.defaults,
            "grid": {name: list(values) for name, values in card.grid.items()},
        }
        for card in sorted(DETECTORS.values(), key=lambda card: card.name)
    ]


def _models_of(card: Detector) -> list[DetectorModel]:
    """The models that it reads with its default settings."""
    from oodometer.lab.detector_models import find_model

    return [find_model(need.name) for need in sorted(card.needed({})) if need.source == "model"]


def _trained_on(card: Detector) -> str:
    """What a detector, or a network of its own, learns from."""
    models = _models_of(card)
    labelled = any(model.task.labelled for model in models)
    parts = [("labelled images" if labelled else "images") if models else "classifier outputs"]
    parts += ["auxiliary outliers"] * any(model.task.outliers_per_input for model in models)
    parts += ["validation outliers"] * card.learns_from_outliers
    return ", ".join(parts)


def _cost(card: Detector) -> str:
    """What a detector takes with its default settings, apart from being fitted to outputs."""
    models = _models_of(card)
    if models:
        networks = max(model.members for model in models)
        each = {"data": "data set", "run": "run", "outliers": "run and outlier set"}
        per = each[max(models, key=lambda model: list(each).index(model.per)).per]
        return f"trains {networks} network{'s' * (networks > 1)} per {per}"
    sources = {need.source for need in card.needed({})}
    if "runs" in sources:
        return "several training runs"
    return "further passes" if "probe" in sources else "one pass"


def _list_datasets() -> list[dict[str, object]]:
    from oodometer.lab.data import catalog, outliers
    from oodometer.lab.data.cards import CARDS

    def entry(name: str, kind: str, summary: str, found: str, licence: str) -> dict[str, object]:
        return {"name": name, "kind": kind, "summary": summary, "found": found, "licence": licence}

    places = {name: catalog.find(name) for name in CARDS}
    found = {name: "" if place is None else str(place.path) for name, place in places.items()}
    return [
        entry(card.name, card.kind, card.summary, found[card.name], card.licence)
        for card in CARDS.values()
    ] + [
        entry(name, "derived from ID", _first_line(make), "", "")
        for name, make in outliers.KNOWN.items()
    ]


def _list_networks() -> list[dict[str, object]]:
    from oodometer.lab.training.networks import KNOWN

    return [{"name": name, "summary": _first_line(build)} for name, build in KNOWN.items()]


def _list_studies() -> list[dict[str, object]]:
    files = sorted(STUDIES.glob("*.yaml"))
    return [
        {
            "name": file.stem,
            "summary": file.read_text(encoding="utf-8").partition("\n")[0].lstrip("# "),
        }
        for file in files
    ]


def _list_protocols() -> list[dict[str, object]]:
    from oodometer.protocols import PROTOCOLS

    return [{"name": name, "summary": made.description} for name, made in PROTOCOLS.items()]


def _list_compatibility() -> list[dict[str, object]]:
    """Which outlier sets OD-test allows for which source, and which classes they must omit."""
    from oodometer.lab.data import compatibility

    def omitted(source: str, outlier: str, rule: compatibility.Rule) -> str:
        overlaps = compatibility.overlaps(source, outlier, rule)
        return ", ".join(
            f"{overlap.name} {'/'.join(map(str, overlap.second))}" for overlap in overlaps
        )

    return [
        {
            "name": f"{source} / {outlier}",
            "allowed": "yes" if source in served else "no",
            "omitted classes (rule=published)": omitted(source, outlier, "published"),
            "omitted classes (rule=strict)": omitted(source, outlier, "strict"),
        }
        for source in compatibility.SOURCES
        for outlier, served in compatibility.SERVES.items()
        if outlier != source
    ]


def _first_line(function: object) -> str:
    return (inspect.getdoc(function) or "").partition("\n")[0]


def _as_text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_as_text(item)}" for key, item in value.items())
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
