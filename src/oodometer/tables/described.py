"""What was read of a table, in words: one short line for each thing that decides the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from oodometer.factors import Kind
from oodometer.results import Results

if TYPE_CHECKING:
    from oodometer.tables.found import Found
    from oodometer.tables.reading import Reading

_KINDS: dict[Kind, str] = {
    "repeat": "repeats",
    "re_evaluation": "re-evaluations",
    "condition": "conditions",
    "part": "parts of sets",
}
_SETS = {"detector": "detectors", "id": "data sets", "ood": "outlier sets"}
_MOST_NAMES = 6
_LONGEST_NAME = 40
_NOT_USED = "not used: "


def described(reading: Reading, compared: str = "") -> tuple[tuple[str, str], ...]:
    """Return pairs such as ("detectors", "2 (column method): MSP, KNN"), decisive ones first.

    `compared` says which part of the table is compared, if not all of it.
    """
    main, *others = reading.results
    lines = [
        ("tables", _tables(reading.found)),
        *((word, _levels(main, role, reading)) for role, word in _SETS.items()),
        *((word, _factors(main, kind)) for kind, word in _KINDS.items()),
        ("metric", f"{_directed(main)}, {_numbers(main)}"),
        ("other metrics", listed([*map(_directed, others)])),
        ("compared", compared),
        ("left out", _left_out(reading)),
    ]
    notes = [("note", note) for note in reading.notes]
    return tuple((name, text) for name, text in (*lines, *notes) if text)


def listed(names: Sequence[str]) -> str:
    """Join names; of many, the first ones and how many more.

    >>> listed(["a", "b"]), listed(list("abcdefgh"))
    ('a, b', 'a, b, c, d, e, f and 2 more')
    """
    few = ", ".join(names[:_MOST_NAMES])
    return few if len(names) <= _MOST_NAMES else f"{few} and {len(names) - _MOST_NAMES} more"


def shortened(name: str) -> str:
    """Cut a long name in its middle.

    >>> shortened("x" * 30 + "y" * 30)
    'xxxxxxxxxxxxxxxxxxxx…yyyyyyyyyyyyyyyyyyy'
    """
    half = _LONGEST_NAME // 2
    return name if len(name) <= _LONGEST_NAME else f"{name[:half]}…{name[1 - half :]}"


def _levels(results: Results, role: str, reading: Reading) -> str:
    """How many detectors or sets there are, which, and where they were found."""
    if role not in results.frame.columns:
        return ""
    names = [str(name) for name in results.frame[role].unique()]
    if names == [""]:
        return ""
    titles = [column for column, read_as in reading.columns if read_as == role]
    where = ""
    if titles:
        where = f" ({titles[0] if titles[0].startswith('column ') else f'column {titles[0]}'})"
    elif set(names) <= {column for column, _ in reading.columns}:
        where = " (a column each)"
    return f"{len(names)}{shortened(where)}: {listed([*map(shortened, names)])}"


def _factors(results: Results, kind: Kind) -> str:
    chosen: Iterable[str] = (factor.name for factor in results.factors if factor.kind == kind)
    counts = [f"{shortened(name)} ({results.frame[name].nunique()} levels)" for name in chosen]
    return listed(counts)


def _tables(found: Sequence[Found]) -> str:
    """Which tables of a file were read, and which were not, if there are several."""
    if len(found) < 2:
        return ""
    read = [shortened(table.label) for table in found if table.is_read]
    if len(read) == len(found):
        return f"all {len(found)} in the file were read as one"
    others = [f"{shortened(t.label)} ({t.why_not})" for t in found if not t.is_read]
    rest = f"; not read: {listed(others)}" if others else ""
    return f"{len(read)} of {len(found)} in the file: {listed(read)}{rest}"


def _left_out(reading: Reading) -> str:
    """Which columns are not used, by the reason why."""
    by_reason: dict[str, list[str]] = {}
    for column, role in reading.columns:
        if role.startswith(_NOT_USED):
            by_reason.setdefault(role.removeprefix(_NOT_USED), []).append(shortened(column))
    return "; ".join(f"{listed(columns)} ({why})" for why, columns in by_reason.items())


def _directed(results: Results) -> str:
    """The metric with its direction."""
    return f"{results.label} ({'higher' if results.higher_is_better else 'lower'} is better)"


def _numbers(results: Results) -> str:
    """How many numbers there are, and what stands behind each."""
    count = len(results.frame)
    if results.mean_of:
        return f"{count} mean{'s' * (count > 1)} of {results.mean_of} runs"
    if "spread" not in results.frame.columns:
        return f"{count} value{'s' * (count > 1)}"
    runs = sorted(results.frame["runs"].unique()) if "runs" in results.frame.columns else []
    over = f" of {runs[0]:g}{f' to {runs[-1]:g}' if len(runs) > 1 else ''} runs" if runs else ""
    return f"{count} mean{'s' * (count > 1)} ± standard deviation{over}"
