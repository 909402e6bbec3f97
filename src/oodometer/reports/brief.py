"""The claims and how the data were read, within a few lines of a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as RichTable
from rich.text import Text

from oodometer.finding import Claim, Finding
from oodometer.reports.console import encodable, table_lines
from oodometer.reports.verdicts import BADGES, READING_TITLE, tally
from oodometer.reports.words import one_line, with_short_words

_BADGE = 10  # characters, with the space behind it
_HEADLINES = 2  # claims of the first finding that come before those of other findings
_MOST_FACTS, _MOST_READING = 8, 9  # facts about the reading, and their lines
_LONGEST_WORD = 60  # characters of a claim
_LONGEST_NAME = 16  # characters of what a fact is about
_MORE = "..."  # ASCII, for every terminal
_MOST_MISSING, _LONGEST_REASON = 3, 240  # reasons why something is missing, and their letters
_LEAST_CLAIMS = 4  # lines of claims that answers leave room for
_LEAST_BESIDE_FIRST = 3  # the same of the first answer, which is told as far as possible
_MOST_ROWS = 10  # of the leaderboard


@dataclass(frozen=True)
class TerminalSummary:
    """The claims of one page, and below them how the data were read, or the leaderboard."""

    findings: tuple[Finding, ...]
    lines: int  # at most, without the leaderboard
    leaderboard: bool  # instead of how the data were read, which was noted before

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the parts, laid out for the width of this console."""
        findings = [encodable(f) if options.ascii_only else f for f in self.findings]
        width = options.max_width
        facts = [pair for f in findings for pair in f.reading if not self.leaderboard]
        reading = list(_reading(console, facts, width)) if facts else []
        answers = _answers(console, findings, width, self.lines - len(reading) - _LEAST_CLAIMS)
        yield from answers
        yield from _claims(console, findings, width, self.lines - len(reading) - len(answers))
        yield from reading
        if self.leaderboard and findings:
            yield from _leaderboard(findings[0], width, options.ascii_only)
            yield from _missing(findings[0].missing)


def _leaderboard(finding: Finding, width: int, ascii_only: bool) -> Iterator[Text | RichTable]:
    """Yield the first rows of the first table."""
    for table in finding.tables[:1]:
        more = len(table.rows) - _MOST_ROWS
        note = f"{more} more rows are in the report." if more > 0 else ""
        yield Text()
        shown = replace(table, rows=table.rows[:_MOST_ROWS], note=note)
        yield from table_lines(shown, width, ascii_only)


def _missing(lines: Sequence[str]) -> Iterator[Text]:
    """Yield why parts are missing, the first few reasons: a failure is never hidden."""
    for line in lines[:_MOST_MISSING]:
        words = with_short_words(one_line(line), _LONGEST_WORD)
        yield _cut(Text(f"missing: {words}"), _LONGEST_REASON)
    if len(lines) > _MOST_MISSING:
        yield Text(f"{len(lines) - _MOST_MISSING} more are in the report.", style="dim")


def _answers(console: Console, findings: Sequence[Finding], width: int, lines: int) -> list[Text]:
    """The answers of all findings, the first in bold, and an empty line; cut to the room.

    After the first come those of findings that decide something. An answer that does not fit at
    all is left to the report, as claims are.
    """
    given = [finding.answer for finding in findings[:1] if finding.answer]
    given += [finding.answer for finding in sorted(findings[1:], key=_certainty) if finding.answer]
    room = max(1, lines - 1)
    most = max(room, room + _LEAST_CLAIMS - _LEAST_BESIDE_FIRST)
    shown: list[Text] = []
    for place, answer in enumerate(given):
        words = with_short_words(one_line(answer), _LONGEST_WORD)
        wrapped = list(Text(words, style="" if place else "bold").wrap(console, width))
        for line in wrapped:
            line.rstrip()
        if not place and len(wrapped) > most:
            wrapped = _clipped(wrapped, most, width)
        if not place or len(shown) + len(wrapped) <= room:
            shown += wrapped
    return [*shown, Text()] if given else []


def _claims(
    console: Console, findings: Sequence[Finding], width: int, lines: int
) -> Iterator[Text]:
    """Yield as many claims as fit, in their order; evidence where there is room for it."""
    claims = [claim for finding in findings for claim in finding.claims]
    if not claims:
        yield Text("No claims.")
        return
    shown = _fitting(console, _by_importance(findings), width - _BADGE, lines)
    for claim in [claim for claim in claims if id(claim) in shown]:
        badge = BADGES[claim.verdict]
        head = Text(f"{badge.label:{_BADGE}}", style=f"bold {badge.colour}")
        for line in shown[id(claim)]:
            line.rstrip()
            yield Text.assemble(head, line)
            head = Text(" " * _BADGE)
    left = [claim for claim in claims if id(claim) not in shown]
    if left:
        counts = ", ".join(f"{count} {BADGES[verdict].label}" for verdict, count in tally(left))
        yield _cut(Text(f"{len(left)} more in the report: {counts}.", style="dim"), width)


def _fitting(
    console: Console, claims: Sequence[Claim], width: int, lines: int
) -> dict[int, list[Text]]:
    """Choose claims that fit, the first in any case: identity of the claim -> its lines."""

    def wrapped(words: str, style: str) -> list[Text]:
        line = Text(with_short_words(one_line(words), _LONGEST_WORD), style=style)
        return list(line.wrap(console, width)) if words else []

    room = max(1, lines - 1 if len(claims) > 1 else lines)  # a line for what is left out
    shown: dict[int, list[Text]] = {}
    for claim in claims:
        text = wrapped(claim.text, "bold")
        if not shown and len(text) > room:
            text = _clipped(text, room, width)
        if len(text) <= room:
            shown[id(claim)] = text
            room -= len(text)
    for claim in [claim for claim in claims if id(claim) in shown]:
        evidence = wrapped(claim.evidence, "")
        if len(evidence) <= room:
            shown[id(claim)] += evidence
            room -= len(evidence)
    return shown


def _by_importance(findings: Sequence[Finding]) -> list[Claim]:
    """The headlines of the first finding, one claim of each other, the rest; decided first.

    An answer tells the headlines of its finding: what is decided comes first then.
    """
    first, *others = [finding.claims for finding in findings]
    if findings[0].answer:
        return sorted((claim for claims in (first, *others) for claim in claims), key=_is_open)
    known = [min(claims, key=_is_open) for claims in others if claims]
    headlines = [*first[:_HEADLINES], *sorted(known, key=_is_open)]
    taken = {id(claim) for claim in headlines}
    rest = [claim for claims in (first, *others) for claim in claims if id(claim) not in taken]
    return [*headlines, *sorted(rest, key=_is_open)]


def _is_open(claim: Claim) -> bool:
    return claim.verdict == "undecided"


def _certainty(finding: Finding) -> int:
    """Findings with something stable come first, then those with something unstable."""
    verdicts = ("holds", "flips", "undecided")
    return min((verdicts.index(claim.verdict) for claim in finding.claims), default=len(verdicts))


def _reading(console: Console, facts: Sequence[tuple[str, str]], width: int) -> Iterator[Text]:
    """Yield a line for each fact about the reading, further ones while there is room."""
    shown = facts if len(facts) <= _MOST_FACTS else facts[: _MOST_FACTS - 1]
    room = _MOST_READING - min(len(facts), _MOST_FACTS)
    yield Text()
    yield Text(READING_TITLE, style="bold")
    names = [_cut(Text(one_line(name), style="dim"), _LONGEST_NAME) for name, _ in shown]
    margin = max(name.cell_len for name in names) + 2
    for name, (_, value) in zip(names, shown, strict=True):
        head = Text.assemble(name, " " * (margin - name.cell_len))
        wrapped = list(Text(one_line(value)).wrap(console, width - margin))
        if len(wrapped) - 1 > room:
            wrapped = [Text(one_line(value))]
        room -= len(wrapped) - 1
        for part in wrapped:
            part.rstrip()
            yield Text.assemble(head, _cut(part, width - margin))
            head = Text(" " * margin)
    if len(shown) < len(facts):
        yield Text(f"{len(facts) - len(shown)} more notes are in the report.", style="dim")


def _clipped(lines: Sequence[Text], most: int, width: int) -> list[Text]:
    """The first lines; the last of them says that more follows."""
    *whole, last = lines[:most]
    last = last.copy()
    last.rstrip()
    last.truncate(width - len(_MORE) - 1, overflow="crop")
    return [*whole, last.append(f" {_MORE}")]


def _cut(line: Text, width: int) -> Text:
    if line.cell_len <= width:
        return line
    line.truncate(width - len(_MORE), overflow="crop")
    return line.append(_MORE)
