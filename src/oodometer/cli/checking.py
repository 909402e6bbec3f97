"""The command that tests detectors: check."""

from __future__ import annotations

import io
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from oodometer.clean_text import clean
from oodometer.cli.common import app, say
from oodometer.errors import UserError, unknown

if TYPE_CHECKING:
    from oodometer.engine.executors import Ended, Executor, Task
    from oodometer.testing import CheckResult

_IMPORT = "import"  # what is done before the first check
_MOST_CHECKS = 3  # that are named where several fail alike


@app.command()
def check(
    detector: Annotated[
        str,
        typer.Argument(help="Name, package.module:name, file.py:name, or file.py for all in it."),
    ],
    time_limit: Annotated[
        int, typer.Option(min=1, help="Seconds after which one check has failed.")
    ] = 120,
) -> None:
    """Run the conformance tests that every detector must pass."""
    name, bracket, _ = detector.partition("(")
    if bracket:
        raise UserError(
            f"'{detector}' includes settings, but 'check' tests every setting of the grid: give "
            f"only the name, {name.strip()}."
        )
    from oodometer.engine.executors.pool import Pool

    # In a process of their own: one that crashes takes neither the others nor the verdict along.
    pool = Pool(1, warm_up=_clean_streams)
    try:
        with tempfile.TemporaryDirectory() as folder:
            trials = _Trials(pool, Path(folder) / "doing", time_limit)
            passed = [_report(name, wrong, trials) for name, wrong in trials.named_in(detector)]
    finally:
        pool.close()
    if not all(passed):
        raise typer.Exit(1)


@dataclass(frozen=True)
class _Verdict:
    """What the checks of a detector found: all that is printed, without a class that loads PyTorch.

    The process that prints needs neither it nor the two seconds that it takes to load.
    """

    failures: list[str]
    passed: int
    checks: int


class _Trials:
    """Runs a stranger's code in another process, which is ended if it gets no further."""

    def __init__(self, executor: Executor, doing: Path, limit: int) -> None:
        self._executor, self._doing, self.limit = executor, doing, limit

    def named_in(self, detector: str) -> list[tuple[str, str]]:
        """The detectors that are meant, and of each what is wrong with its card, if anything."""
        from oodometer.engine.executors import Task

        ended = self._run(Task(detector, _named, (detector,)))
        if ended is None:
            raise UserError(
                f"'{detector}' could not be imported within {self.limit} s (--time-limit)."
            )
        if ended.lost or ended.error:
            how = f"the process ended ({ended.lost})" if ended.lost else ended.error
            raise UserError(f"'{detector}' could not be imported: {how.rstrip('.')}.")
        if isinstance(ended.value, str):
            raise UserError(ended.value)
        return cast("list[tuple[str, str]]", ended.value)

    def verdict(self, name: str) -> _Verdict | str:
        """What the checks of a detector found, or why they came to no end."""
        from oodometer.engine.executors import Task

        ended = self._run(Task(name, _checked, (name, self._doing)))
        if ended is None:
            number, _, step = self._doing.read_text(encoding="utf-8").partition(" ")
            return f"check {number} ({step}) took more than {self.limit} s (--time-limit)"
        if ended.lost or ended.error:
            return f"the process ended ({ended.lost})" if ended.lost else ended.error
        return cast("_Verdict", ended.value)

    def _run(self, task: Task) -> Ended | None:
        """Wait until a task ends; give it up, and return None, if a step exceeds the limit.

        Seconds are counted by the loop, so that time in which it was suspended does not count.
        """
        self._doing.write_text(_IMPORT, encoding="utf-8")
        self._executor.submit(task)
        step, seconds = _IMPORT, 0
        while not (ended := self._executor.wait(1.0)):
            now = self._doing.read_text(encoding="utf-8")
            step, seconds = now, seconds + 1 if now == step else 0
            if seconds >= self.limit:
                self._executor.cancel(task.name)
                return None
        return ended[0]


def _report(name: str, wrong: str, trials: _Trials) -> bool:
    """Print what the tests find; an invalid card is what they find."""
    if wrong:
        say(f"{name} is not valid: {wrong}")
        return False
    verdict = trials.verdict(name)
    if isinstance(verdict, str):
        say(f"{name} failed: {verdict}")
        return False
    for line in verdict.failures:
        say(line)
    say(f"{name}: {verdict.passed} of {verdict.checks} checks passed")
    return verdict.passed == verdict.checks


def _failures(failed: list[CheckResult]) -> list[str]:
    """One line for all checks that fail alike: what does not run at all fails most of them."""
    alike: dict[tuple[str, str], list[CheckResult]] = {}
    for result in failed:
        alike.setdefault((str(result.settings), result.message), []).append(result)
    lines = []
    for first, *others in alike.values():
        named = ", ".join([first.check, *(own.check for own in others[: _MOST_CHECKS - 1])])
        more = len(others) - _MOST_CHECKS + 1
        said = str(replace(first, check=f"{named} and {more} more" if more > 0 else named))
        lines.append(said)
    return lines


class _Cleaned(io.TextIOWrapper):
    """What a stranger's code prints, without control characters."""

    def write(self, text: str) -> int:
        """Write the text, cleaned."""
        super().write(clean(text))
        return len(text)


def _clean_streams() -> None:
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        setattr(
            sys, name, _Cleaned(stream.buffer, encoding=stream.encoding, errors="backslashreplace",
                                line_buffering=True),
        )  # fmt: skip


def _named(detector: str) -> list[tuple[str, str]] | str:
    """The detectors that are meant and what is wrong with each card; or why there are none."""
    import oodometer.builtin  # noqa: F401 - importing registers them
    from oodometer.registry import DETECTORS, classes_in, detectors_in, find

    try:
        if detector.endswith(".py"):
            # A class beside decorated detectors may be a part of theirs.
            here = detectors_in(detector) or classes_in(detector)
            if not here:
                raise UserError(
                    f"'{detector}' has no detector: decorate a function with @om.detector, write "
                    f"a class with fit and score, or name a function of images, {detector}:NAME."
                )
            return [
                (f"{detector}:{name}", str(card) if isinstance(card, UserError) else "")
                for name, card in here.items()
            ]
        if ":" not in detector and detector not in DETECTORS:
            raise unknown("detector", detector, [*DETECTORS, "file.py:name", "package.module:name"])
        find(detector)
    except UserError as refusal:
        return str(refusal)
    return [(detector, "")]


def _checked(name: str, doing: Path) -> _Verdict:
    from oodometer.testing import check_detector

    number = 0

    def begin(step: str) -> None:
        nonlocal number
        number += 1
        doing.write_text(f"{number} {step}", encoding="utf-8")

    results = check_detector(name, begin=begin)
    failed = [result for result in results if result.outcome == "failed"]
    return _Verdict(_failures(failed), len(results) - len(failed), len(results))
