"""Execute tasks in processes of this machine; one that dies or stops takes only its task along."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path
from queue import Empty, SimpleQueue

from oodometer.engine.executors import Ended, Task
from oodometer.engine.executors.worker import Answer, failure, serve, worker_environment

SECONDS_PER_TICK = 0.25
# A worker that neither reports nor uses the processor for this many ticks is stopped
# or stuck. Ticks are counted by the loop that waits, so that time in which the runner itself was
# stopped, the machine asleep or the clock set does not count.
SILENT_TICKS = 80


_FROM_OUTSIDE = {signal.SIGTERM, signal.SIGINT, getattr(signal, "SIGKILL", signal.SIGTERM)}


class Pool:
    """Processes that are spawned and fed one task each; those that are lost are replaced."""

    def __init__(
        self,
        workers: int,
        *,
        warm_up: Callable[[], None] | None = None,
        sweep: Callable[[int], None] = lambda process: None,
        start: int = 0,
        silent_ticks: int = SILENT_TICKS,
    ) -> None:
        """`warm_up` is called first in each process; `start` of them are started right away.

        `sweep` is called with the number of each process that was ended by force.
        """
        self.slots = workers
        self._warm_up, self._sweep, self._silent_ticks = warm_up, sweep, silent_ticks
        self._events: SimpleQueue[tuple[_Worker, Ended]] = SimpleQueue()
        self._workers: list[_Worker] = []
        self._last_tick = time.monotonic()
        for _ in range(min(start, workers)):
            self._start()

    def idle(self) -> list[str]:
        """The groups that idle workers did last; "" for those that are not started yet."""
        groups = [worker.group for worker in self._workers if worker.task is None]
        return groups + [""] * (self.slots - len(self._workers))

    def submit(self, task: Task) -> None:
        """Hand a task to the worker that knows its group, or else to any idle one."""
        idle = [worker for worker in self._workers if worker.task is None]
        known = [worker for worker in idle if worker.group == task.group]
        worker = next(iter(known or idle), None) or self._start()
        worker.give(task)

    def wait(self, seconds: float) -> list[Ended]:
        """Return what ended; meanwhile, watch whether the workers are alive."""
        deadline = time.monotonic() + seconds
        while True:
            ended = self._next(min(SECONDS_PER_TICK, max(0.0, deadline - time.monotonic())))
            self._tick()
            if ended or time.monotonic() >= deadline:
                return ended

    def cancel(self, name: str) -> None:
        """End the worker that has this task."""
        for worker in [worker for worker in self._workers if _has(worker, name)]:
            self._end(worker)

    def close(self) -> None:
        """End all workers at once, stopped ones too."""
        self.slots = 0
        try:
            for worker in list(self._workers):
                self._end(worker)
        finally:  # a signal may have raised in between
            for worker in list(self._workers):
                self._end(worker)

    def _start(self) -> _Worker:
        assert len(self._workers) < self.slots, "nobody is idle"
        worker = _Worker(self._events, self._warm_up)
        self._workers.append(worker)
        return worker

    def _next(self, seconds: float) -> list[Ended]:
        ended = []
        with contextlib.suppress(Empty):
            event = self._events.get(timeout=seconds)
            while True:
                worker, result = event
                if worker in self._workers:  # else it was given up
                    worker.task = None
                    ended.append(result)
                    if result.lost:
                        self._end(worker)
                event = self._events.get_nowait()
        return ended

    def _tick(self) -> None:
        """Count one tick at most, however long ago the last one was."""
        now = time.monotonic()
        if now - self._last_tick < SECONDS_PER_TICK:
            return
        self._last_tick = now
        for worker in self._workers:
            if worker.task is not None and worker.silence() >= self._silent_ticks:
                worker.stopped = True
                worker.process.kill()  # its listener will tell

    def _end(self, worker: _Worker) -> None:
        worker.end()
        self._workers.remove(worker)
        if worker.process.pid is not None:
            self._sweep(worker.process.pid)


class _Worker:
    """A process, and a thread that talks to it: talking to a stopped process may take for ever."""

    def __init__(
        self, events: SimpleQueue[tuple[_Worker, Ended]], warm_up: Callable[[], None] | None
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, there = context.Pipe()
        self.process: BaseProcess = context.Process(
            target=serve, args=(there, warm_up), name="oodometer-worker"
        )
        # Else Python would wait for it at exit, for ever, if this worker was never ended.
        self._kill = partial(_kill, self.process)
        atexit.register(self._kill)
        with worker_environment(), _without_interrupts():
            self.process.start()
        there.close()
        self.task: Task | None = None
        self.group = ""
        self.stopped = False  # it did not answer any more
        self._events = events
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._beats = self._known_beats = self._silent = 0
        self._used: float | None = None
        threading.Thread(target=self._listen, daemon=True).start()

    def give(self, task: Task) -> None:
        """Let the process execute a task."""
        self.task, self.group, self._silent = task, task.group, 0
        self._tasks.put(task)

    def silence(self) -> int:
        """For how many ticks nothing has been heard or seen of the process."""
        if self._beats != self._known_beats:
            self._known_beats, self._silent = self._beats, 0
        else:
            self._silent += 1
            used = processor_seconds(self.process.pid)
            if used != self._used:  # busy with something that lets no other thread run
                self._used, self._silent = used, 0
        return self._silent

    def end(self) -> None:
        """End the process and its listener."""
        self._tasks.put(None)
        self.process.kill()
        self.process.join(5)
        atexit.unregister(self._kill)

    def _listen(self) -> None:
        while (task := self._tasks.get()) is not None:
            self._events.put((self, self._talk(task)))
        self._connection.close()

    def _talk(self, task: Task) -> Ended:
        try:
            self._connection.send((task.function, task.arguments))
            answer: Answer | None = None
            while answer is None:
                answer = self._connection.recv()
                self._beats += 1
        except (EOFError, OSError):
            self.process.join(60)  # it is about to end, and its exit code tells why
            code = self.process.exitcode
            words = "it was stopped" if self.stopped else _last_words(code)
            return Ended(task, lost=words, outside=code is not None and -code in _FROM_OUTSIDE)
        except Exception as problem:  # noqa: BLE001 - what cannot be sent or read
            answer = failure(problem)
        return Ended(task, **answer)


def _kill(process: BaseProcess) -> None:
    if process.pid is not None:  # it was started
        process.kill()


def _has(worker: _Worker, name: str) -> bool:
    return worker.task is not None and worker.task.name == name


def _last_words(code: int | None) -> str:
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def processor_seconds(process: int | None) -> float | None:
    """Processor time that a process has used, where the system tells; else None."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return float(fields[11]) + float(fields[12])


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Keep Ctrl-C from a process from its first moment on: the runner alone decides."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # It is started together with the first process, and then lets interrupts through again.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
