"""Cells with a number for each of two detectors: 34.7/4.3 below FPR95 (baseline/ODIN)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from oodometer.tables.cells import numeric_share
from oodometer.tables.vocabulary.names import is_detector

if TYPE_CHECKING:
    import pandas as pd

_IN_BRACKETS = re.compile(r"\s*[(\[]([^()\[\]/]+(?:/[^()\[\]/]+)+)[)\]]")
_IN_TEXT = re.compile(r"(?<![\w/])([\w+\-]{2,30}(?:\s?/\s?[\w+\-]{2,30})+)(?![\w/])")


def with_detectors_of_pairs(frame: pd.DataFrame, about: str, notes: list[str]) -> pd.DataFrame:
    """Return a column per detector, where titles or the text above name those of all pairs."""
    import pandas as pd

    titles = [str(title) for title in frame.columns]
    said = [found[1] for title in titles for found in _IN_BRACKETS.finditer(title)]
    said += [found[1] for found in _IN_TEXT.finditer(about)]
    named = ([part.strip() for part in text.split("/")] for text in said)
    names = next((parts for parts in named if all(map(is_detector, parts))), [])
    pairs = [c for c in titles if names and _are_pairs(frame[c], len(names))]
    if not pairs:
        return frame
    columns: dict[str, list[str]] = {}
    for title in titles:
        texts = frame[title].tolist()
        if title not in pairs:
            columns[title] = texts
            continue
        bare = _IN_BRACKETS.sub("", title).strip()
        cells = [[part.strip() for part in text.split("/")] for text in texts]
        for place, name in enumerate(names):
            own = [parts[place] if len(parts) == len(names) else "" for parts in cells]
            columns[f"{bare} {name}"] = own
    notes.append(f"cells of {len(names)} numbers were split: {', '.join(names)}")
    return pd.DataFrame(columns, dtype=object)


def _are_pairs(texts: pd.Series[str], size: int) -> bool:
    """Whether most cells hold as many numbers, parted by slashes."""
    several = numeric_share(texts, pairs=True) > 0.5 > numeric_share(texts)
    return several and any(text.count("/") == size - 1 for text in texts)
