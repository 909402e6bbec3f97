"""Write docs/detectors.md from the cards of the detectors."""

from __future__ import annotations

from pathlib import Path

import oodometer.detectors  # noqa: F401 - importing registers them
from oodometer.registry import DETECTORS, Detector

PAGE = Path(__file__).parent / "detectors.md"
HEAD = """# Detectors

Made from the cards in the code by `make docs`. Scores are higher for outliers. "Reads" is all that
a detector is shown; labels only of the training set. Settings show the default first.

"""


def entry(card: Detector) -> str:
    """Describe one detector."""
    settings = [
        f"`{name}`: **{card.defaults[name]}**"
        + "".join(f", {value}" for value in values if value != card.defaults[name])
        for name, values in card.grid.items()
    ]
    lines = [
        f"## {card.name}",
        card.summary,
        *([f"```text\n{card.formula}\n```"] if card.formula else []),
        f"- Paper: {card.paper}",
        f"- Reads: {', '.join(sorted(card.needs))}",
        *([f"- Settings: {'; '.join(settings)}"] if settings else []),
    ]
    return (
        "\n\n".join(lines[: 3 if card.formula else 2])
        + "\n\n"
        + "\n".join(line for line in lines if line.startswith("- "))
    )


def page() -> str:
    """Describe every built-in detector."""
    own = [card for card in DETECTORS.values() if card.build.__module__.startswith("oodometer.")]
    return HEAD + "\n\n".join(entry(card) for card in sorted(own, key=lambda c: c.name)) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
