"""Run tasks on this machine: a pool of processes, one torch thread each."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from oodometer.engine.plan import Plan, RunPlan
from oodometer.engine.store import FolderStore, Store
from oodometer.scores import Missing

ATTEMPTS = 3  # a task whose worker dies (out of memory, killed) is tried this often
Progress = Callable[[int, int], None]  # units of work that are done, and all of them
_WORKER_ENVIRONMENT = {
    # Read by the numerical libraries when a worker starts: more threads than cores only hurt.
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
    # The C library would give the memory of each batch back to the system and fetch it anew.
    "MALLOC_MMAP_THRESHOLD_": str(2**25),
    "MALLOC_TRIM_THRESHOLD_": str(2**30),
}


def run_pool(
    plan: Plan, todo: list[RunPlan], store: FolderStore, workers: int, progress: Progress
) -> list[Missing]:
    """Execute the runs; return what could not be done.

    Every worker is a pool of its own, so that one that dies takes only its own task with it.
    """
    missing: list[Missing] = []
    attempts = dict.fromkeys((run.label for run in todo), 0)
    waiting = deque(todo)
    free = [_start_pool() for _ in range(min(workers, len(todo)))]
    busy: dict[Future[list[Missing]], tuple[ProcessPoolExecutor, RunPlan]] = {}
    finished: list[RunPlan] = []
    total = sum(count_units(run) for run in todo)
    try:
        while waiting or busy:
            while waiting and free:
                run, pool = waiting.popleft(), free.pop()
                with _worker_environment():  # the process starts with its first task
                    task = pool.submit(
                        _work, run, plan.study.ood, plan.named_detectors, str(store.folder)
                    )
                busy[task] = pool, run
            done, _ = wait(busy, timeout=0.25, return_when=FIRST_COMPLETED)
            for task in done:
                pool, run = busy.pop(task)
                try:
                    missing += task.result()
                except BrokenProcessPool:
                    pool.shutdown(wait=False)
                    pool = _start_pool()
                    attempts[run.label] += 1
                    if attempts[run.label] < ATTEMPTS:
                        waiting.append(run)
                    else:
                        missing.append(_remember_death(run, store))
                        finished.append(run)
                else:
                    finished.append(run)
                free.append(pool)
            # Progress is read off the store: a queue that workers write to would hang if one were
            # killed while it held the queue's lock.
            working = sum(_done(run, store) for _, run in busy.values())
            progress(sum(count_units(run) for run in finished) + working, total)
    finally:
        for pool in [*free, *(pool for pool, _ in busy.values())]:
            for process in _stop(pool):
                store.sweep(process)
    return missing


def _start_pool() -> ProcessPoolExecutor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(1, context, _start_worker)


def _remember_death(run: RunPlan, store: Store) -> Missing:
    """Keep, as a result, that a run's worker died again and again."""
    reason = f"its worker died {ATTEMPTS} times, perhaps for lack of memory"
    failure = Missing(reason, run=run.label)
    payload = json.dumps(vars(failure), indent=1).encode()
    store.save("failures", run.model, payload, {"run": run.label})
    return failure


def count_units(run: RunPlan) -> int:
    """Units of work in a run: its model, its outputs, each detector."""
    return 2 + len(run.scores)


def _done(run: RunPlan, store: Store) -> int:
    """Units of a run that are in the store."""
    *_, last = run.outputs
    detectors = sum(store.has("scores", keys[last]) for keys in run.scores.values())
    extracted = store.has("outputs", run.outputs[last])
    return store.has("models", run.model) + extracted + detectors


def _stop(pool: ProcessPoolExecutor) -> list[int]:
    """End a worker at once, even a stopped one; return the numbers of the ended processes."""
    processes = list((pool._processes or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.kill()
        process.join(5)
    return [process.pid for process in processes if process.pid is not None]


@contextmanager
def _worker_environment() -> Iterator[None]:
    """Give workers their environment; this process keeps its own."""
    before = {name: os.environ.get(name) for name in _WORKER_ENVIRONMENT}
    os.environ.update(_WORKER_ENVIRONMENT)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _start_worker() -> None:
    """Prepare a worker: one thread, deaf to Ctrl-C, and gone when its parent is gone."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    """End this process when its parent dies: a killed runner leaves nobody behind."""
    process = multiprocessing.parent_process()
    if process is not None:
        process.join()
    os._exit(1)


def _work(
    run: RunPlan, ood: tuple[str, ...], detectors: tuple[str, ...], folder: str
) -> list[Missing]:
    from oodometer.engine.steps import execute

    return execute(run, ood, detectors, FolderStore(folder))
