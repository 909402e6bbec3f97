"""Show the progress of a running study, and stop it cleanly."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from oodometer.clean_text import clean
from oodometer.cli.common import end_with, say, unexpected
from oodometer.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

    from oodometer.engine.plan.artefacts import Stage
    from oodometer.engine.upkeep.watch import Progress

SECONDS_BETWEEN_LINES = 10.0  # where there is no terminal
SECONDS_BETWEEN_EQUAL_LINES = 60.0  # while nothing is finished
RESUME = "run the same command again to resume."


class Display:
    """Shows progress: bars on a terminal, otherwise a line now and then."""

    def __init__(self, name: str, screen: Console) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        self.last: Progress | None = None
        self._name, self._screen = name, screen
        self._last_line = time.monotonic()
        self._last_counts = ""
        self._bars = Bars(
            TextColumn("{task.description:8}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
            console=screen,
            transient=True,
        )
        self._stages: dict[str, TaskID] = {}

    def __enter__(self) -> Display:
        if self._screen.is_terminal:
            self._bars.start()
            self._stages[""] = self._bars.add_task(f"study {self._name}", total=None, note="")
        return self

    def __exit__(self, *problem: object) -> None:
        self._bars.stop()

    def tell(self, sentence: str) -> None:
        """Print a message above the bars, or as a line of its own."""
        if self._screen.is_terminal:
            self._bars.console.print(clean(sentence), highlight=False)
        else:
            say(f"oodometer: {sentence}", err=True)

    def update(self, state: Progress) -> None:
        """Show how far the study is."""
        self.last = state
        if self._screen.is_terminal:
            self._draw(state)
        elif (silent := time.monotonic() - self._last_line) >= SECONDS_BETWEEN_LINES:
            counts = stage_counts(state.stages)
            if counts == self._last_counts and silent < SECONDS_BETWEEN_EQUAL_LINES:
                return
            self._last_line, self._last_counts = time.monotonic(), counts
            notes = "".join(f", {note}" for note in progress_notes(state))
            self.tell(f"study {self._name}: {counts}{notes}")

    def _draw(self, state: Progress) -> None:
        if "" in self._stages:
            self._bars.remove_task(self._stages.pop(""))
            for stage in state.stages:
                self._stages[stage] = self._bars.add_task(stage, total=None, note="")
        for stage, (done, wanted) in state.stages.items():
            note = ", ".join(progress_notes(state)) if stage == "score" else ""
            self._bars.update(self._stages[stage], completed=done, total=wanted, note=note)


def stage_counts(stages: Mapping[Stage, tuple[int, int]]) -> str:
    """Write how far each stage is, as `run` and `status` do."""
    return ", ".join(f"{stage} {done} of {wanted}" for stage, (done, wanted) in stages.items())


def progress_notes(state: Progress) -> Iterator[str]:
    """Failures, runs of other runners, time left: whatever there is to say."""
    if state.failed:
        yield f"{state.failed} failed"
    if state.elsewhere:
        yield f"{state.elsewhere} with another runner"
    if state.seconds_left is not None:
        about = "at least" if state.at_least else "about"
        yield f"{about} {duration(state.seconds_left)} left"


def duration(seconds: float) -> str:
    """Write a duration in the unit that suits it."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def summary(state: Progress | None) -> str:
    """Say what was made and what was reused; None: the study was finished before."""
    if state is None:
        return "all results were already in the store"
    made = ", ".join(f"{stage} {n}" for stage, n in zip(state.stages, state.made, strict=True))
    there = ", ".join(
        f"{stage} {n}" for stage, n in zip(state.stages, state.found, strict=True) if n
    )
    words = f"made: {made}" + (f"; reused from the store: {there}" if there else "")
    return words + (f"; failed: {state.failed}" if state.failed else "")


class _Stopped(KeyboardInterrupt):
    """The user asked the study to stop, by Ctrl-C or SIGTERM."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def stoppable() -> Iterator[None]:
    """Stop cleanly on Ctrl-C and SIGTERM; a second signal ends the process at once."""
    end = os._exit  # as it is now: while code of a user runs, it raises

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        end(128 + number)

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        for each in signals:
            signal.signal(each, leave)
        raise _Stopped(number)

    signals = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, stop) for number in signals}
    try:
        yield
    except _Stopped as request:
        say(f"oodometer: interrupted; {RESUME}", err=True)
        sys.exit(128 + request.number)
    except (UserError, OSError):  # `main` reports them
        raise
    except Exception as problem:  # noqa: BLE001 - the last to report it
        end_with(f"{unexpected(problem)} {RESUME.capitalize()}")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
