"""The colours of figures and pages, once for light and once for dark.

Words on their ground keep a contrast of 4.5 : 1, marks one of 3 : 1; a test computes both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

STEPS = 9  # of the sequential scale: one hue, so lightness alone carries the order
HUES = 8  # categories; the shape of the mark says the same a second time


def _numbered(name: str, *colours: str) -> dict[str, str]:
    return {f"{name}-{index}": colour for index, colour in enumerate(colours)}


LIGHT: Mapping[str, str] = {
    "page": "#f6f7f9",
    "card": "#ffffff",
    "ink": "#18212d",
    "muted": "#556070",
    "line": "#dde2e9",
    "guide": "#eceff3",
    "accent": "#1b5fa6",
    "holds": "#0a664f",
    "holds-ground": "#e1f3ec",
    "flips": "#9f320d",
    "flips-ground": "#fdeae1",
    "undecided": "#5f5208",
    "undecided-ground": "#f7f1d9",
    **_numbered(
        "hue",
        *("#0069a8", "#c94f00", "#00805e", "#9a4590"),
        *("#8a6400", "#3c434d", "#cf2a6b", "#2b8fd0"),
    ),
    **_numbered(
        "step",
        *("#f0f5fb", "#dce8f5", "#c4daee", "#a6c8e5", "#82b2da"),
        *("#5d98cb", "#3775af", "#205b94", "#0f4074"),
    ),
    **{f"on-step-{index}": "#101a26" if index < 6 else "#ffffff" for index in range(STEPS)},
}

DARK: Mapping[str, str] = {
    "page": "#11151b",
    "card": "#181e26",
    "ink": "#e5e9ef",
    "muted": "#a4aebc",
    "line": "#2f3846",
    "guide": "#252d38",
    "accent": "#7fb6f2",
    "holds": "#82dcbd",
    "holds-ground": "#13352c",
    "flips": "#ffb294",
    "flips-ground": "#432111",
    "undecided": "#e6d28d",
    "undecided-ground": "#393113",
    **_numbered(
        "hue",
        *("#5fb2f2", "#ff9458", "#4fd0a7", "#e29bd4"),
        *("#e6c04e", "#c8d0da", "#ff82aa", "#a9d6ff"),
    ),
    **_numbered(
        "step",
        *("#1f2a38", "#21354c", "#244363", "#28527b", "#2f6191"),
        *("#5d96c8", "#7dadd8", "#a5c9e8", "#d3e7f8"),
    ),
    **{f"on-step-{index}": "#f2f6fb" if index < 5 else "#0b1219" for index in range(STEPS)},
}


def stylesheet() -> str:
    """Write the colours as CSS variables; paper is always light."""
    light, dark = _declarations(LIGHT), _declarations(DARK)
    return (
        f":root{{color-scheme:light;{light}}}\n"
        f"@media screen and (prefers-color-scheme:dark)"
        f'{{:root:not([data-theme="light"]){{color-scheme:dark;{dark}}}}}\n'
        f'@media screen{{:root[data-theme="dark"]{{color-scheme:dark;{dark}}}}}\n'
    )


def scale_rules() -> str:
    """Write one rule per step of the sequential scale and per category."""
    steps = (
        f".figure .step-{index}{{fill:var(--step-{index})}}"
        f".figure .on-step-{index}{{fill:var(--on-step-{index})}}"
        for index in range(STEPS)
    )
    hues = (
        f".figure .hue-{index}{{fill:var(--hue-{index});stroke:var(--hue-{index})}}"
        for index in range(HUES)
    )
    return "\n".join((*steps, *hues)) + "\n"


def on_paper(rules: str) -> str:
    """Return style rules with the light colours in place of their variables.

    >>> on_paper("text{fill:var(--card)}")
    'text{fill:#ffffff}'
    """
    return re.sub(r"var\(--([a-z0-9-]+)\)", lambda found: LIGHT[found[1]], rules)


def _declarations(colours: Mapping[str, str]) -> str:
    return "".join(f"--{name}:{colour};" for name, colour in colours.items())
