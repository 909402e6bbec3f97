"""Cells and lines that hold several things: pairs of metrics, ID → OOD, means and spreads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from oodometer.tables.cells import is_gap, numeric_share
from oodometer.tables.names import MEANS, OTHER_STATISTICS, SPREADS, metric_named, plain

if TYPE_CHECKING:
    import pandas as pd

_ARROW = r"^\s*(\S.*?)\s*(?:→|->|⇒|\bvs\b\.?)\s*(\S.*?)\s*$"


def unfolded(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Return a table in which every cell holds one number or name, or a mean with its spread."""
    return _join_statistics(_split_arrows(_split_pairs(frame, notes), notes), notes)


def _split_pairs(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Split columns such as SVHN (FPR95/AUROC) with cells such as 40.1/91.2."""
    import pandas as pd

    columns: dict[str, list[str]] = {}
    split = []
    for title in map(str, frame.columns):
        texts = frame[title].tolist()
        if "/" not in title:
            columns[title] = texts
            continue
        found = re.search(r"([\w@%.\-↑↓ ]+(?:\s*/\s*[\w@%.\-↑↓ ]+)+)", title)
        names = [name.strip() for name in found[1].split("/")] if found else []
        cells = [[part.strip() for part in text.split("/")] for text in texts]
        whole = all(len(parts) in (1, len(names)) for parts in cells)
        several = any(len(parts) == len(names) for parts in cells)
        if not found or len(names) < 2 or not whole or not several:
            columns[title] = texts
            continue
        metrics = [metric_named(name.split()[-1] if name else "") for name in names]
        if None in metrics:
            columns[title] = texts
            continue
        what = title.replace(found[1], names[0].removesuffix(names[0].split()[-1])).strip(" ()[]")
        split.append(title)
        for place, name in enumerate(names):
            values = [parts[place] if len(parts) == len(names) else "" for parts in cells]
            columns[f"{what} {name.split()[-1]}".strip()] = values
    if not split:
        return frame
    notes.append(f"columns that hold several metrics were split: {', '.join(split)}")
    return pd.DataFrame(columns, dtype=object)


def _split_arrows(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Split a column of cells such as CIFAR-10 → SVHN into ID set and outlier set."""
    for title in map(str, frame.columns):
        if not re.match(_ARROW, frame[title].iloc[0]):
            continue
        parts = frame[title].str.extract(_ARROW)
        if parts.notna().all(axis=None) and not {"id", "ood"} & set(frame.columns):
            frame = frame.drop(columns=title).assign(id=parts[0], ood=parts[1])
            notes.append(f"column {title} was split into the ID set and the outlier set")
            break
    return frame


def _join_statistics(frame: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Join lines of means with those of their spreads, where a column says which is which."""
    known = {*MEANS, *SPREADS, *OTHER_STATISTICS}
    for title in map(str, frame.columns):
        if plain(frame[title].iloc[0]) not in known:
            continue
        kinds = frame[title].map(plain)
        if not (kinds.isin(known).all() and kinds.isin(MEANS).any()):
            continue
        rest = frame.drop(columns=title)
        numeric = [c for c in rest.columns if numeric_share(rest[c]) > 0.5]
        labels = [c for c in rest.columns if c not in numeric]
        means = rest[kinds.isin(MEANS)]
        spreads = rest[kinds.isin(SPREADS)]
        if not labels or means.duplicated(labels).any() or spreads.duplicated(labels).any():
            continue
        matched = means[labels].merge(spreads, how="left", on=labels).fillna("")
        joined = means.reset_index(drop=True)
        for column in numeric:
            joined[column] = [
                mean if is_gap(mean) or is_gap(spread) else f"{mean}±{spread}"
                for mean, spread in zip(joined[column], matched[column], strict=True)
            ]
        others = dict.fromkeys(frame[title][~kinds.isin([*MEANS, *SPREADS])])
        left = f"; left out: {', '.join(others)}" if others else ""
        notes.append(f"rows of means and spreads were joined, as {title} says{left}")
        return joined
    return frame
