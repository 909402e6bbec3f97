"""One self-contained HTML page for findings: no network, light and dark, screen and paper."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from oodometer.clean_text import clean
from oodometer.finding import CellOrigins, Finding
from oodometer.reports.drawing import palette
from oodometer.reports.drawing.figures import figure_rules
from oodometer.reports.verdicts import BADGES, READING_TITLE, tally
from oodometer.reports.views import finding_views, names_in
from oodometer.reports.words import one_line

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

_LONG_LIST = 40
_LARGE_PAGE = 2_500_000  # characters; of such a page, large parts are compressed until seen
_LARGE = 10_000  # characters of such a part: a table or a figure
_POLICY = "content-security-policy"  # stands in for the policy until the page is whole


def render(
    findings: Sequence[Finding], *, title: str, provenance: Sequence[tuple[str, str]] = ()
) -> str:
    """Return the page; equal findings give equal text."""
    names = names_in(findings)
    views = finding_views(findings, names)
    origins = [own.origin.cells for own in findings if own.origin and own.origin.cells]
    distinct = [own for place, own in enumerate(origins) if own not in origins[:place]]
    contents = {
        "policy": _POLICY,
        "title": title,
        "views": views,
        "also": [view for view in views[1:] if view.finding.answer],
        "names": names,
        "provenance": list(provenance),
        "origins": [_cells_text(own) for own in distinct],
        "origin_of": [
            distinct.index(own.origin.cells) + 1 if own.origin and own.origin.cells else 0
            for own in findings
        ],
        "verdicts": tally(claim for finding in findings for claim in finding.claims),
        "badges": BADGES,
        "long_list": _LONG_LIST,
        "reading_title": READING_TITLE,
    }
    page = clean(_template().render(contents, longest=math.inf))
    if len(page) > _LARGE_PAGE:
        page = clean(_template().render(contents, longest=_LARGE))
    return page.replace(_POLICY, _policy(page), 1)


def _policy(page: str) -> str:
    """Allow exactly the style and the scripts that the page has, and nothing from elsewhere."""

    def hashes(tag: str) -> str:
        parts = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digests = [hashlib.sha256(part.encode()).digest() for part in parts]
        return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)

    return (
        f"default-src 'none'; style-src {hashes('style')}; script-src {hashes('script')}; "
        "img-src data:; form-action 'none'; base-uri 'none'"
    )


def _packed(markup: Markup | str, what: str, longest: float) -> Markup:
    """Compress longer markup; the script of the page unpacks it when it comes into view."""
    from markupsafe import Markup

    text = clean(str(markup))
    if len(text) <= longest:
        return Markup(text)
    content = _compressed(text)
    note = (
        f"This {what} is large, and shown on screen by JavaScript. A report in the format csv or "
        "md holds all numbers."
    )
    return Markup(
        f'<div class="packed"><script type="application/gzip">{content}</script>'
        f'<p class="packed-note" hidden>{note}</p><noscript><p>{note}</p></noscript></div>'
    )


def _cells_text(cells: CellOrigins) -> str:
    """Write which stored scores the numbers are made of, for the script of the page."""
    digests = {
        one_line(detector): {one_line(name): " ".join(own) for name, own in by_set.items()}
        for detector, by_set in cells.digests.items()
    }
    content = {"command": cells.command, "id": one_line(cells.id), "runs": cells.runs}
    return _compressed(json.dumps(content | {"digests": digests}, separators=(",", ":")))


def _compressed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


@cache
def _template() -> Template:
    # Imported here: a program that only might write a report need not load a template engine.
    from jinja2 import Environment, FunctionLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FunctionLoader(_resource),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["packed"] = _packed
    environment.globals["style"] = Markup(
        palette.stylesheet() + _resource("report.css") + figure_rules()
    )
    environment.globals["script"] = Markup(_resource("report.js"))
    return environment.get_template("report.html.j2")


def _resource(name: str) -> str:
    return files("oodometer.reports").joinpath(name).read_text(encoding="utf-8")
