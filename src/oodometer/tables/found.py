"""The tables of a file: which there are, and which of them were read."""

from __future__ import annotations

from dataclasses import dataclass


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
