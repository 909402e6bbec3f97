"""One cell of a results table: a number, a mean with its spread, a gap, or a text."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from functools import lru_cache
from math import isfinite
from typing import NamedTuple

Rows = list[list[str]]  # the cells of a table, line by line

_LONGEST = 1000  # characters of a cell with a number
_REMEMBERED = 1 << 18  # cells: each is asked for several times, and many are equal
_GAPS = frozenset(
    {"", "-", "--", "---", "–", "—", "n/a", "n.a.", "na", "nan", "none", "null", "?", "/",
     "missing", "oom", "error", "fail", "failed", "tbd", "not available", "timeout", "diverged",
     "n.r.", "nr", "not reported", "✗", "✘", "×", "∅", "…", "...", ".", "*", "n/d", "n.d.",
     "k.a.", "s.o.", "dnf", "unknown", "not run", "running", "pending", "skipped", "crashed",
     "killed", "not applicable", "todo", "wip", "coming soon", "did not finish", "out of memory",
     "-/-", "-(-)", "-±-", "\\textemdash", "not tested", "not evaluated", "n.f.",
     "no disponible", "non disponible", "nicht verfügbar", "keine angabe", "not disclosed", "⨯",
     "❌", ":x:", "-%"}
)  # fmt: skip
_FORMULA_ERROR = re.compile(r"#[A-ZÄÖÜ][A-ZÄÖÜ0-9/]*[!?]?")  # #N/A, #NV, #DIV/0!, #VALEUR!
_EXPLAINED = re.compile(r"(?:n/?a|nan|[-–—])\s*\([^()\d]*\)", re.IGNORECASE)  # N/A (no labels)
_NO_MEAN = re.compile(r"nan\s*(?:±|\+/-|\()\s*nan\)?", re.IGNORECASE)
_NO_SPREAD = re.compile(r"\s*(?:±|\+/-|\+-|\(\s*±?)\s*(?:n/?a|nan|[-–—?])\s*\)?$", re.IGNORECASE)
# A footnote's mark in superscript.
_MARK = r"\^\s*\{?\s*(?:\\(?!pm(?![a-zA-Z]))[a-zA-Z]+|[a-zA-Z*†‡§,]|\d(?![\d.]))+\s*\}?"
_DECORATION = re.compile(
    r"\\(?:cellcolor|color|textcolor|colorbox|rowcolor|cite[a-z]*|footnote|tablefootnote)"
    r"(?:\[[^]]*\])?\{[^}]*\}"
    rf"|{_MARK}"
    r"|\\(?!pm(?![a-zA-Z]))[a-zA-Z]+\*?"  # \textbf and whatever else a paper defines; not \pm
    r"|<sup>[^<]*</sup>|<[/a-z][^<>]*>|[*_]{2}|\\[,;!]|[{}$~†‡§¹²³⁺↑↓`★☆⭐✓✔\U0001f300-\U0001faff\u2600-\u27bf\ufe0f]"
    r"|\\(?=%)|^[~≈]|\*+(?=\s|$)|^[*_]+|(?<=\d)_$|^['\"]|['\"]$"
)
# A gain over another line, a rank or an interval in brackets is no standard deviation.
_REMARK = re.compile(
    r"\s*(?:\(\s*[+\-−↑↓▲▼][^()]*\)|\((?![^()]*(?:±|std|sd|σ))\d*[\s-]?[^\W\d_][^()]*\)|\((?![^()]*(?:±|std|sd|σ))\d[\d.,]*\s*%?\s[^\W\d_][^()]*\)|[(\[]\s*9\d\s*%\s*CI[^()\[\]]*[)\]]|[(\[]\s*(?:#|rank\s*|n\s*=\s*)?\d+\s*(?:/\s*\d+\s*)?[)\]]|[↑↓▲▼]\s*[\d.,]+\s*%?"
    r"|[↑↓▲▼]\s*\(\s*[\d.,]+\s*%?\s*\)|\(\s*[\d.,]+\s*%?\s*[↑↓▲▼]\s*\)"
    r"|(?:(?<=[\d%])|(?<=[\d%]\s))\+\s?\d[\d.,]*\s*%?"
    r"|[\[(][^\[\]()±]*\d\s*%?\s*(?:[;–-]|,\s)[^\[\]()±]*\d\s*%?[\])]|[←⬅].*)$",
    re.IGNORECASE,
)
_SAID_BEFORE = re.compile(  # (model with 5 frames): 82.4
    r"^(?:\((?=[^()]*[^\W\d_])[^()]{1,80}\)|`[^`]{1,80}`)\s*:\s*(?=\S)"
)
_DRESS = "*_"  # around what is bold
_NUMBER = r"[+\-−]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][+\-−]?\d+)?"
_PLUS_MINUS = r"(?:±|\+/-|\+-|\\pm|_\s*\\pm|&plusmn;|\^\s*\\pm)"
_SCRIPT = re.compile(r"(?<=\d)\$?[_^]\{?\s*(\d*\.\d+)\s*\}?\$?$")  # 91.2$_{0.3}$
_CELL = re.compile(
    rf"^(?P<first>%\s?)?(?P<value>{_NUMBER})\s*(?P<sign>%|percent\b|pct\b)?"
    rf"(?:\s*(?:_?\s*(?:{_PLUS_MINUS}|std\.?|sd)\s*(?P<spread>{_NUMBER})|"
    rf"\(\s*(?:{_PLUS_MINUS}|(?:std|sd|σ)\b\.?\s*[:=]?)?\s*(?P<bracket>{_NUMBER})\s*%?\s*\)))?"
    rf"\s*(?P<end>%|percent\b|pct\b)?$",
    re.IGNORECASE,
)
_INTERVAL = re.compile(
    rf"\s*[\[(]\s*({_NUMBER})\s*%?\s*(?:[,;–]|to|-)\s*({_NUMBER})\s*%?\s*[\])]\s*"
)
ABOUT = ("~", "≈")  # before a number that is not exact
_RANGE = re.compile(
    r"[~≈]\s*(?P<low>\d+(?:[.,]\d+)?)\s*(?P<first>%?)\s*(?:-|–|—|to)\s*[~≈]?\s*"
    r"(?P<high>\d+(?:[.,]\d+)?)\s*(?P<last>%?)"
)
_THOUSANDS = re.compile(r"(?<![\d.])(\d{1,3}(?:,\d{3})+)(?=\.\d)")  # 1,234.5; not 1,234
_LOWERED = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋", "0123456789±-")  # digits of a spread
_PLAIN = re.compile(r"\d+(?:\.\d+)?", re.ASCII)  # most cells: no need to look for more
_LOOKED_AT = 5000  # cells of a column, evenly, to tell whether it holds numbers
_NUMPY = re.compile(r"\b(?:(?:np|numpy|torch)\.)?(?:float|int|tensor)\d*\(([^()]*)\)")
_WIDE = str.maketrans(
    "０１２３４５６７８９．，％＋－（）\u00a0\u2009\u202f", "0123456789.,%+-()   "
)


class Cell(NamedTuple):
    """A number as a table states it; `spread` is what stands behind ±."""

    value: float
    spread: float | None = None
    percent: bool = False  # it carries a percent sign
    remark: str = ""  # what else it says, such as a rank or an interval: not used


@lru_cache(maxsize=_REMEMBERED)
def is_gap(text: str) -> bool:
    """Return whether a cell says that there is no value.

    >>> [is_gap(text) for text in ("", " n/a ", "–", "0")]
    [True, True, True, False]
    """
    bare = _SAID_BEFORE.sub("", text.strip())
    if bare.strip("*\\${} _").casefold() in _GAPS or bare.casefold() in _GAPS:
        return True
    spaceless = bare.casefold().replace(" ", "")
    known = spaceless in _GAPS or _GAPS.issuperset(spaceless.split("/"))  # --- / ---
    known |= bool(_FORMULA_ERROR.fullmatch(bare) or _NO_MEAN.fullmatch(bare))
    return known or bool(_EXPLAINED.fullmatch(bare))


@lru_cache(maxsize=_REMEMBERED)
def read_cell(text: str) -> Cell | None:
    r"""Read one cell, or return None if it is not a number.

    >>> read_cell("91,2 %")
    Cell(value=91.2, spread=None, percent=True, remark='')
    >>> read_cell("%91,2").percent  # as in Turkish
    True
    >>> read_cell(r"$\mathbf{91.2}_{\pm 0.3}$")
    Cell(value=91.2, spread=0.3, percent=False, remark='')
    >>> read_cell("91.2 (+1.3)")
    Cell(value=91.2, spread=None, percent=False, remark='(+1.3)')
    >>> read_cell("82.24 (17.76)").spread
    >>> read_cell("svhn")
    >>> read_cell("~81-83%")
    Cell(value=82.0, spread=None, percent=True, remark='~81-83%')
    """
    cell = _read(text)
    if cell is None or not isfinite(cell.value + (cell.spread or 0.0)):
        return None  # 1e400 is no result
    return cell


def _read(text: str) -> Cell | None:
    """The number of a cell, which may be too large to be one."""
    if _PLAIN.fullmatch(text):
        return Cell(float(text))
    if len(text) > _LONGEST:
        return None
    text = _SAID_BEFORE.sub("", _NUMPY.sub(r"\1", text))
    if text[:1] in ABOUT and (found := _RANGE.fullmatch(text)):
        return _middle(found)
    text = _lowered(_NO_SPREAD.sub("", text.translate(_WIDE).strip()))
    text = _THOUSANDS.sub(lambda found: found[1].replace(",", ""), _SCRIPT.sub(r"±\1", text))
    text = text if text[-1:] not in _DRESS else text.strip(_DRESS)  # **91.2 (best)**
    remark = _REMARK.search(text)
    bare = text[: remark.start()] if remark and remark.start() else text
    plain = _DECORATION.sub("", bare).strip()
    found = _CELL.match(plain)
    if found is None:
        return None
    bracket = found["bracket"]
    if bracket and _is_rest(found["value"], bracket):  # the error rate beside an accuracy
        return Cell(_number(found["value"]), None, bool(found["sign"]), f"({bracket})")
    spread = found["spread"] or bracket
    return Cell(
        _number(found["value"]),
        None if spread is None else abs(_number(spread)),
        bool(found["first"] or found["sign"] or found["end"]),
        remark[0].strip() if remark and remark.start() else "",
    )


def _middle(found: re.Match[str]) -> Cell | None:
    """Read a range such as ~81-83% by its middle."""
    low, high = _number(found["low"]), _number(found["high"])
    percent = bool(found["first"] or found["last"])
    return Cell((low + high) / 2, None, percent, found[0]) if low < high else None


def _is_rest(value: str, bracket: str) -> bool:
    """Whether two percentages, to two decimals or more, make a hundred."""
    fine = len(bracket.rpartition(".")[2]) > 1 and "." in bracket
    return fine and abs(_number(value) + _number(bracket) - 100.0) < 1e-6


def _lowered(text: str) -> str:
    """Write digits below the line, as in 91.2₀.₃, behind ±."""
    start = next((n for n, sign in enumerate(text) if sign in "₀₁₂₃₄₅₆₇₈₉"), 0)
    return f"{text[:start]}±{text[start:].translate(_LOWERED)}" if start else text


def interval_of(text: str) -> tuple[float, float] | None:
    """Read an interval, such as that of a confidence level, or return None if a cell is none.

    >>> interval_of("[15.5, 25.4]"), interval_of("(0.81–0.90)"), interval_of("91.2 (0.3)")
    ((15.5, 25.4), (0.81, 0.9), None)
    """
    found = _INTERVAL.fullmatch(text)
    return (_number(found[1]), _number(found[2])) if found else None


_NO_PAIR = re.compile(
    r"[^/]{0,8}(?:\d+\s*/\s*255|(?<!\d)\d\d?\s*/\s*256)|(?:0?[1-9]|1[0-2])\s*/\s*(?:19|20)\d\d"
)


def is_no_pair(text: str) -> bool:
    """Whether two numbers are one thing: how far an attack changes pixels, or a month.

    >>> [is_no_pair(text) for text in ("8/255", "ε = 2 / 255", "05/2024", "40/91", "230/256")]
    [True, True, True, False, False]
    """
    return _NO_PAIR.fullmatch(text) is not None


def holds_numbers(text: str) -> bool:
    """Whether a cell holds a number, or several with a slash between.

    >>> [holds_numbers(text) for text in ("91.2", "95.2% / -", "9 +/- 1", "n/a", "MSP", "8/255")]
    [True, True, True, False, False, False]
    """
    if "/" not in text or read_cell(text) is not None:  # 91.2 +/- 0.3
        return read_cell(text) is not None
    if is_no_pair(text):
        return False
    parts = text.split("/")
    numbers = [part for part in parts if read_cell(part.strip()) is not None]
    return bool(numbers) and all(p in numbers or is_gap(p) for p in parts)


def numeric_share(texts: Iterable[str], *, pairs: bool = False) -> float:
    """Return the share of cells that are numbers, of those that are not gaps; 0 if all are gaps.

    With `pairs`, cells that hold several numbers count, too.
    """
    given = list(texts)
    some = given[:: 1 + len(given) // _LOOKED_AT]
    filled = [text for text in some if not is_gap(text)]
    if not filled and len(some) < len(given):
        filled = [text for text in given if not is_gap(text)]
    counts = holds_numbers if pairs else read_cell
    return sum(map(bool, map(counts, filled))) / len(filled) if filled else 0.0


def value_of(text: str) -> float:
    """Return the number of a cell, or NaN if it holds none."""
    cell = read_cell(text)
    return float("nan") if cell is None else cell.value


def may_be_places(texts: Iterable[str]) -> bool:
    """Whether numbers may be places in an order: each has enough others before it, or is a mean.

    The rank of adapters, 8 or 16, has nobody before it.

    >>> may_be_places(["2", "1", "2"]), may_be_places(["8", "16"]), may_be_places(["1.5", "2.5"])
    (True, False, True)
    """
    places = sorted(cell.value for text in texts if (cell := read_cell(text)) is not None)
    means = any(place % 1 for place in places)
    return means or all(place - 1 <= bisect_left(places, place) for place in places)


def _number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", "."))
