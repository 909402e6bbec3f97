"""The tables of a file: which there are, and which of them were read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

UNNAMED = "no metric is named"  # why a table with numbers is not read
_SHOWN = 4  # tables that a sentence names


@dataclass(frozen=True)
class Found:
    """A table in a file, or a sheet of a workbook, and whether it was read."""

    number: int  # FILE#number reads it
    name: str  # its caption, the heading above it, or the name of the sheet
    lines: int
    columns: int
    is_read: bool = False
    why_not: str = ""

    @property
    def label(self) -> str:
        """The number, the name and the size, such as `2: CIFAR-100 (12 × 6)`."""
        name = f"{self.name} " if self.name else ""
        return f"{self.number}: {name}({self.lines} × {self.columns})"


def beside(found: Sequence[Found]) -> str:
    """Say which other tables of a page have numbers, where one that was chosen has no results."""
    others = [table for table in found if table.why_not == UNNAMED]
    shown = "; ".join(f"#{table.label}" for table in others[:_SHOWN])
    more = "; …" if len(others) > _SHOWN else ""
    return f" Other tables of the page have numbers, too: {shown}{more}." if others else ""
