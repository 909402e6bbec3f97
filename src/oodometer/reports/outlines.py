"""Text of a figure as outlines, so that it looks the same where its fonts are not installed."""

from __future__ import annotations

import json
import re
from html import unescape

from oodometer.reports.drawing.figures import FONTS
from oodometer.reports.drawing.svg import Font, element, font_of

# One page per text. Its lower edge is the baseline.
_PAGES = b"""
#set page(width: auto, height: auto, margin: 0pt, fill: none)
#set text(font: json(bytes(sys.inputs.fonts)))
#for (words, size, weight, style) in json(bytes(sys.inputs.texts)) {
  page(text(size: size * 1pt, weight: weight, style: style, words))
}
"""
_TEXT = re.compile(r"<text((?: [\w-]+=\"[^\"]*\")*)>(<title>[^<]*</title>)?([^<]*)</text>")
_ATTRIBUTE = re.compile(r" ([\w-]+)=\"([^\"]*)\"")
_SIZE = re.compile(r'<svg viewBox="0 0 ([\d.]+) ([\d.]+)"')
_SYMBOL = re.compile(r'<symbol id="([^"]+)".*?</symbol>', re.DOTALL)
_ANCHORS = {"start": 0.0, "middle": 0.5, "end": 1.0}


def outlined(drawn: str) -> str:
    """Return a standalone figure with outlines in place of its text; it needs the package typst."""
    wanted = {_font_and_words(match): None for match in _TEXT.finditer(drawn) if match[3].strip()}
    if not wanted:
        return drawn
    pages = dict(zip(wanted, _typeset(list(wanted)), strict=True))
    symbols: dict[str, str] = {}
    for page in pages.values():
        symbols |= {match[1]: match[0] for match in _SYMBOL.finditer(page)}

    def outline(match: re.Match[str]) -> str:
        page = pages.get(_font_and_words(match))
        return "" if page is None else _placed(match, page)

    shown = _TEXT.sub(outline, drawn)
    shown = shown.replace("<svg ", '<svg xmlns:xlink="http://www.w3.org/1999/xlink" ', 1)
    return shown.removesuffix("</svg>") + element("defs", *symbols.values()) + "</svg>"


def _font_and_words(match: re.Match[str]) -> tuple[Font, str]:
    css = dict(_ATTRIBUTE.findall(match[1])).get("class", "")
    return font_of(css), unescape(match[3])


def _typeset(wanted: list[tuple[Font, str]]) -> list[str]:
    """Return a small SVG image of each text."""
    import typst

    texts = json.dumps([(words, *font) for font, words in wanted])
    inputs = {"texts": texts, "fonts": json.dumps(FONTS)}
    pages = typst.compile(_PAGES, format="svg", sys_inputs=inputs)
    return [page.decode() for page in (pages if isinstance(pages, list) else [pages])]


def _placed(match: re.Match[str], page: str) -> str:
    """Put an outline where its text stood."""
    attributes = dict(_ATTRIBUTE.findall(match[1]))
    size = _SIZE.search(page)
    assert size is not None, "a page has a size"
    width, height = float(size[1]), float(size[2])
    x = float(attributes.get("x", 0)) - _ANCHORS[attributes.get("text-anchor", "start")] * width
    move = f"translate({x:.2f},{float(attributes.get('y', 0)) - height:.2f})"
    body = page[page.index(">") + 1 :].removesuffix("</svg>")
    body = re.sub(r"<defs>.*?</defs>", "", body, flags=re.DOTALL)
    # Colours are those of the class, as of text.
    body = re.sub(r' fill="#000000"(?: fill-rule="nonzero")?', "", body)
    own = f"outline {attributes.get('class', '')}".strip()
    turned = " ".join(filter(None, (attributes.get("transform"), move)))
    words = unescape(match[3])
    return element("g", match[2] or "", body, class_=own, transform=turned, aria_label=words)
