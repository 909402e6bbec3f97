"""The few SVG elements the figures are made of, with everything escaped."""

from __future__ import annotations

from html import escape as _escape
from typing import NamedTuple

from oodometer.reports.words import one_line

LABEL_SIZE = 12.0
TICK_SIZE = 11.0
_SMALL, _BOLD, _ITALIC = ("tick", "cell"), ("panel-title", "absent-word"), ("gap-word",)  # classes
LINE_HEIGHT = 14.0


def escape(text: object) -> str:
    """Return `text` safe inside an element and inside an attribute."""
    return _escape(one_line(text), quote=True)


def element(tag: str, *children: str, **attributes: str | float | None) -> str:
    """Write one element; children are markup, attributes are escaped, None leaves one out.

    >>> element("line", x1=0.0, x2=1.23456, class_="grid")
    '<line x1="0" x2="1.23" class="grid"/>'
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    return f"<{tag}{written}>{''.join(children)}</{tag}>" if children else f"<{tag}{written}/>"


class Font(NamedTuple):
    """How text of a class is written."""

    size: float
    weight: int
    style: str


def font_of(css: str) -> Font:
    """Return the font of text with these classes.

    >>> font_of("tick gap-word")
    Font(size=11.0, weight=400, style='italic')
    """
    own = css.split()
    return Font(
        TICK_SIZE if any(name in own for name in _SMALL) else LABEL_SIZE,
        600 if any(name in own for name in _BOLD) else 400,
        "italic" if any(name in own for name in _ITALIC) else "normal",
    )


def font_rules() -> str:
    """Write the same as rules of CSS."""
    rules = [f".figure text {{ font-size: {LABEL_SIZE:g}px; stroke: none; }}"]
    for names, rule in (
        (_SMALL, f"font-size: {TICK_SIZE:g}px; font-variant-numeric: tabular-nums"),
        (_BOLD, "font-weight: 600"),
        (_ITALIC, "font-style: italic"),
    ):
        rules.append(f"{', '.join(f'.figure .{name}' for name in names)} {{ {rule}; }}")
    return "\n".join(rules) + "\n"


def title(content: str) -> str:
    """Write what a mark says when it is pointed at."""
    return f"<title>{escape(content)}</title>"


def text(
    content: str,
    x: float,
    y: float,
    *,
    css: str = "label",
    anchor: str = "start",
    rotate: float = 0.0,
    full: str = "",
) -> str:
    """Write a text whose middle is at height `y`; `full` is the untruncated text, if it was cut."""
    hover = title(full) if full and full != content else ""
    # An offset of a third of the size centres digits and lower case in every common font; the
    # attribute for it (dominant-baseline) is not honoured by all programs that open SVG files.
    size = font_of(css).size
    turn = f"translate({_plain(x)},{_plain(y)}) rotate({_plain(rotate)})" if rotate else None
    return element(
        "text",
        hover + escape(content),
        x=None if rotate else x,
        y=size * 0.35 if rotate else y + size * 0.35,
        class_=css,
        text_anchor=None if anchor == "start" else anchor,
        transform=turn,
    )


def lines(
    contents: list[str], x: float, middle: float, *, css: str, anchor: str = "start", full: str = ""
) -> str:
    """Write several lines whose block is centred at height `middle`."""
    top = middle - LINE_HEIGHT * (len(contents) - 1) / 2
    complete = full if "".join(contents).replace(" ", "") != full.replace(" ", "") else ""
    return "".join(
        text(line, x, top + index * LINE_HEIGHT, css=css, anchor=anchor, full=complete)
        for index, line in enumerate(contents)
    )


def _attribute(value: str | float) -> str:
    return escape(value) if isinstance(value, str) else _plain(value)


def _plain(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if value else "0"
