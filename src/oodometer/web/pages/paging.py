"""Long lists in pages: the last part of a route is page-2."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from oodometer.web.site import NotFoundError

Item = TypeVar("Item", covariant=True)


class Items(Protocol[Item]):
    """Something long of which parts are shown."""

    def __len__(self) -> int:
        """How many there are."""

    def __getitem__(self, part: slice, /) -> Sequence[Item]:
        """Some of them."""


@dataclass(frozen=True)
class Pager:
    """Where in a long list a page is."""

    number: int
    pages: int
    first: int  # of the items shown, counted from 1
    last: int
    total: int
    previous: str | None  # route
    next: str | None


def paged(
    items: Items[Item], parts: Sequence[str], size: int, route: str
) -> tuple[Sequence[Item], Pager]:
    """The items of the page that the rest of a route names."""
    match = re.fullmatch(r"page-([1-9][0-9]{0,5})", parts[0]) if len(parts) == 1 else None
    if parts and match is None:
        raise NotFoundError(f"There is no page '{'/'.join(parts)[:60]}'.")
    number = 1 if match is None else int(match[1])
    pages = max(1, -(-len(items) // size))
    if number > pages:
        raise NotFoundError(f"There is no page {number}: this list has {pages}.")
    shown = items[(number - 1) * size : number * size]

    def name(page: int) -> str:
        return route if page == 1 else f"{route or 'studies'}/page-{page}"

    return shown, Pager(
        number,
        pages,
        (number - 1) * size + 1 if len(items) else 0,
        (number - 1) * size + len(shown),
        len(items),
        name(number - 1) if number > 1 else None,
        name(number + 1) if number < pages else None,
    )
