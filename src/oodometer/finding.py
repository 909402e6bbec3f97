"""The conclusions of a protocol as data: claims, tables, series to plot, caveats, missing cells."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from oodometer.errors import UserError, unknown
from oodometer.metrics import Estimate
from oodometer.pictures import Gallery, Picture

Verdict = Literal["holds", "flips", "undecided", "warning"]
VERDICTS: tuple[str, ...] = get_args(Verdict)
# What a claim is about: who leads, what changes that, what explains it, what is missing.
Theme = Literal["leads", "changes", "explains", "missing"]
THEMES: tuple[Theme, ...] = get_args(Theme)
_LEAST_P = 0.0001  # smaller p-values are not written out: no test here is that exact
Value = str | int | float | None
TableCell = str | int | float | Estimate | None  # None: missing, and shown as such

# The keys that every point of a series must have; further keys are remarks shown in tooltips.
POINT_KEYS: dict[str, tuple[str, ...]] = {
    "intervals": ("label", "group", "value", "low", "high"),
    "leaderboard": ("label", "value", "low", "high", "letters", "leads"),
    "critical": ("label", "value", "letters"),
    "heatmap": ("row", "column", "value"),
    "strips": ("label", "panel", "level", "value"),
    "boxes": ("label", "panel", "value", "low", "lower", "upper", "high"),
    "bars": ("label", "part", "value"),
    "ranks": ("label", "case", "value"),
    "gaps": ("row", "column", "value", "of", "reason"),
    "lines": ("label", "panel", "x", "value"),
}
_NUMBERS = ("value", "low", "lower", "upper", "high")
# What the key of a point names: figures mark it, so that one detector is found in all of them.
Role = Literal["detector", "set", "factor", "level", "run"]
ROLES: tuple[str, ...] = get_args(Role)


def p_value_text(p_value: float) -> str:
    """Write a p-value to two digits, or more to see on which side of 5% it is; it is never 0.

    >>> p_value_text(0.0123), p_value_text(1.0), p_value_text(3e-7), p_value_text(0.04978)
    ('0.012', '1', '< 0.0001', '0.0498')
    """
    if p_value < _LEAST_P:
        return f"< {_LEAST_P:.4f}"
    digits = next(
        (d for d in (2, 3, 4) if (float(f"{p_value:.{d}g}") < 0.05) == (p_value < 0.05)), 5
    )
    return f"{p_value:.{digits}g}"


def less_than_one(value: float, places: int) -> str:
    """Write a number whose size is less than 1, which no rounding makes 1.

    >>> less_than_one(0.99956, 4), less_than_one(0.99999, 4)
    ('0.9996', '0.9999')
    """
    text = f"{value:.{places}f}"
    scale: int = 10**places
    return text if abs(float(text)) < 1.0 else f"{int(value * scale) / scale:.{places}f}"


@dataclass(frozen=True)
class Claim:
    """One plain sentence, its verdict, and the numbers behind it.

    `leaves_open` is what an undecided claim leaves open, such as "whether knn always ranks first":
    several such claims can be told as one.
    """

    text: str
    verdict: Verdict
    evidence: str
    theme: Theme = "leads"
    leaves_open: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise unknown("verdict", self.verdict, VERDICTS)
        if self.theme not in THEMES:
            raise unknown("theme of a claim", self.theme, THEMES)


def themed(theme: Theme, claims: Iterable[Claim]) -> list[Claim]:
    """Say what claims are about."""
    return [replace(claim, theme=theme) for claim in claims]


def folded(claims: Iterable[Claim], tried: str, fewest: int = 2) -> tuple[Claim, ...]:
    """Tell undecided claims of a theme that say what they leave open as one, where the first is.

    `tried` is what does not settle them, such as "3 training runs". All others stay as they are,
    and so do these where they are fewer than `fewest`.
    """
    every = list(claims)
    found: dict[Theme, list[Claim]] = {}
    for claim in every:
        if claim.verdict == "undecided" and claim.leaves_open:
            found.setdefault(claim.theme, []).append(claim)
    told = []
    for claim in every:
        own = found.get(claim.theme, [])
        if len(own) < fewest or not any(claim is other for other in own):
            told.append(claim)
        elif claim is own[0]:
            told.append(_as_one(own, tried))
    return tuple(told)


def _as_one(claims: list[Claim], tried: str) -> Claim:
    *first, last = (claim.leaves_open for claim in claims)
    does = "does" if tried.startswith("1 ") else "do"
    return Claim(
        f"{tried} {does} not settle {', '.join(first)} or {last}.",
        "undecided",
        " ".join(f"{claim.text.rstrip('.')} ({claim.evidence})." for claim in claims),
        claims[0].theme,
    )


@dataclass(frozen=True)
class Table:
    """A table; a cell is text, a number, an Estimate with its confidence interval, or None.

    `better` says of columns that compare detectors whether higher is better; `sections` gives the
    section and the short name of columns that belong together, such as the metrics on one set.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    note: str = ""
    better: Mapping[str, bool] = field(default_factory=dict)
    sections: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise UserError(
                    f"Table '{self.name}' has {len(self.columns)} columns, but a row has "
                    f"{len(row)} cells: {row}."
                )
            for cell in row:
                numbers = cell if isinstance(cell, Estimate) else (cell,)
                if any(isinstance(n, float) and not math.isfinite(n) for n in numbers):
                    raise UserError(
                        f"Table '{self.name}' contains {cell}; use None for a missing value."
                    )


@dataclass(frozen=True)
class Series:
    """The numbers of one figure, independent of how it is drawn.

    `intervals`: a value with low and high per label, in groups; `leaderboard`: the same, the best
    first, and the letters of the groups that cannot be separated; `critical`: values on one axis
    and bars over these groups; `heatmap`: a value per row and column, with a `section` of columns
    if there is one; `strips`: single values per label, one
    panel per factor, one strip per level; `boxes`: the median, quartiles and ends of many values;
    `lines`: a value against a number x, one line per label; `bars`: parts of a bar per label;
    `ranks`: a value per label and case, joined by lines; `gaps`: how many results of a row and
    column are missing, `of` how many, and for which reason. `roles` says what the keys of its
    points name, such as {"label": "detector", "group": "set"}.
    """

    kind: Literal[
        "intervals", "leaderboard", "critical", "heatmap", "strips", "boxes", "lines", "bars",
        "ranks", "gaps",
    ]  # fmt: skip
    name: str
    title: str
    description: str  # for readers who cannot see the figure
    value_label: str  # what the value is, such as "AUROC"
    points: tuple[Mapping[str, Value], ...]
    higher_is_better: bool | None = True  # None: neither
    roles: Mapping[str, Role] = field(default_factory=dict)
    x_label: str = ""  # what x is, in lines

    def __post_init__(self) -> None:
        if self.kind not in POINT_KEYS:
            raise unknown(f"kind of series '{self.name}':", self.kind, POINT_KEYS)
        for role in self.roles.values():
            if role not in ROLES:
                raise unknown(f"role in series '{self.name}':", role, ROLES)
        for point in self.points:
            self._check_point(point)

    def _check_point(self, point: Mapping[str, Value]) -> None:
        absent = [key for key in POINT_KEYS[self.kind] if key not in point]
        if absent:
            raise UserError(f"A point of series '{self.name}' lacks {', '.join(absent)}.")
        for key, value in point.items():
            if key in _NUMBERS and isinstance(value, str):
                raise UserError(
                    f"Series '{self.name}' contains {key}={value!r}; expected a number or None."
                )
            if isinstance(value, float) and not math.isfinite(value):
                raise UserError(
                    f"Series '{self.name}' contains {key}={value}; use None for a missing value."
                )


@dataclass(frozen=True)
class CellOrigins:
    """The stored scores that the numbers of each detector on each data set are made of."""

    command: str  # that shows one, without its digest: "oodometer show --store STORE"
    id: str  # the in-distribution set, whose scores every number is made of, too
    runs: tuple[str, ...]
    # detector -> data set -> a digest per run, its first letters; empty text: there is none
    digests: Mapping[str, Mapping[str, tuple[str, ...]]]


@dataclass(frozen=True)
class Origin:
    """Where the numbers of a finding come from: its digest in a store, and what shows more."""

    digest: str
    command: str  # such as "oodometer show 8fa532d92597 --store STORE"
    cells: CellOrigins | None = None


@dataclass(frozen=True)
class Finding:
    """What one protocol concludes from one table of scores or results."""

    protocol: str
    title: str
    question: str
    claims: tuple[Claim, ...]
    tables: tuple[Table, ...] = ()
    series: tuple[Series, ...] = ()
    caveats: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()  # such as ("training runs", "9")
    reading: tuple[tuple[str, str], ...] = ()  # how its input was read: ("metric", "AUROC")
    galleries: tuple[Gallery, ...] = ()  # pictures; only the HTML report shows them
    answer: str = ""  # to the question, as one would say it; every report starts with it
    origin: Origin | None = None  # where it is stored, if it is
    families: Mapping[str, str] = field(default_factory=dict)  # detector -> what it reads


def to_json(finding: Finding) -> str:
    """Write a finding as JSON; equal findings give equal text."""
    content = asdict(finding)
    for table, written in zip(finding.tables, content["tables"], strict=True):
        written["rows"] = [[_cell_to_json(cell) for cell in row] for row in table.rows]
    return json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1)


def from_json(text: str) -> Finding:
    """Read a finding that `to_json` wrote."""
    content = json.loads(text)
    return Finding(
        protocol=content["protocol"],
        title=content["title"],
        question=content["question"],
        claims=tuple(Claim(**claim) for claim in content["claims"]),
        tables=tuple(_table_from_json(table) for table in content["tables"]),
        series=tuple(
            Series(**{**series, "points": tuple(series["points"])}) for series in content["series"]
        ),
        caveats=tuple(content["caveats"]),
        missing=tuple(content["missing"]),
        facts=tuple((name, value) for name, value in content["facts"]),
        reading=tuple((name, value) for name, value in content.get("reading", ())),
        galleries=tuple(_gallery_from_json(gallery) for gallery in content.get("galleries", ())),
        answer=content.get("answer", ""),
        origin=_origin_from_json(origin) if (origin := content.get("origin")) else None,
        families=content.get("families", {}),
    )


def _origin_from_json(origin: dict[str, Any]) -> Origin:
    cells = origin.get("cells")
    if cells is None:
        return Origin(origin["digest"], origin["command"])
    digests = {
        detector: {name: tuple(own) for name, own in by_set.items()}
        for detector, by_set in cells["digests"].items()
    }
    runs = tuple(cells["runs"])
    found = CellOrigins(cells["command"], cells["id"], runs, digests)
    return Origin(origin["digest"], origin["command"], found)


def _gallery_from_json(gallery: dict[str, Any]) -> Gallery:
    return Gallery(**{**gallery, "pictures": tuple(Picture(**p) for p in gallery["pictures"])})


def _cell_to_json(cell: TableCell) -> Value | dict[str, float]:
    return cell._asdict() if isinstance(cell, Estimate) else cell


def _table_from_json(table: dict[str, object]) -> Table:
    rows = table["rows"]
    assert isinstance(rows, list)
    cells = tuple(
        tuple(Estimate(**cell) if isinstance(cell, dict) else cell for cell in row) for row in rows
    )
    columns, better, sections = (table.get(key, {}) for key in ("columns", "better", "sections"))
    assert isinstance(columns, list) and isinstance(better, dict) and isinstance(sections, dict)
    return Table(
        name=str(table["name"]),
        title=str(table["title"]),
        columns=tuple(columns),
        rows=cells,
        note=str(table["note"]),
        better=better,
        sections={column: (section, short) for column, (section, short) in sections.items()},
    )
