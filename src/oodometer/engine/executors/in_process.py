"""Execute tasks in this process, one after the other: for tests, notebooks and debuggers."""

from __future__ import annotations

from oodometer.engine.executors import Ended, Task
from oodometer.engine.executors.worker import call


class InProcess:
    """One task at a time, in the process that waits for it."""

    slots = 1

    def __init__(self) -> None:
        self._task: Task | None = None
        self._group = ""

    def idle(self) -> list[str]:
        """One entry, while no task waits."""
        return [self._group] if self._task is None else []

    def submit(self, task: Task) -> None:
        """Keep a task for the next call of `wait`."""
        assert self._task is None, "one task at a time"
        self._task, self._group = task, task.group

    def wait(self, seconds: float) -> list[Ended]:
        """Execute the task, however long it takes."""
        task, self._task = self._task, None
        if task is None:
            return []
        from threadpoolctl import threadpool_limits

        # As in a worker: with more threads sums would be added up in another order.
        with threadpool_limits(1):
            return [Ended(task, **call(task.function, task.arguments))]

    def cancel(self, name: str) -> None:
        """Drop the task that waits, if it has this name."""
        if self._task is not None and self._task.name == name:
            self._task = None

    def close(self) -> None:
        """Drop the task that waits."""
        self._task = None
