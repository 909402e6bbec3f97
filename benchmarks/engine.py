"""What the engine itself costs: planning, looking, keeping; all figures in one run.

    python benchmarks/engine.py [TASKS]       # default 100,000 score cells

Aims on two cores: a plan of 100,000 tasks in under 5 s and 1 GiB, the status of a store with
200,000 artefacts in under 5 s, under 20 ms per task, a finished study known in under 2 s.
"""

from __future__ import annotations

import contextlib
import hashlib
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from oodometer.engine.lead.run import make_plan, run_study
from oodometer.engine.plan.plan import Plan, plan
from oodometer.engine.plan.study_index import record_plan
from oodometer.engine.plan.trainings import DataContent
from oodometer.engine.stores import FolderStore, MemoryStore, Store
from oodometer.engine.upkeep.survey import survey
from oodometer.engine.work.codecs import (
    arrays_to_bytes,
    bytes_to_arrays,
    bytes_to_table,
)
from oodometer.score_files import table_to_bytes
from oodometer.scores import ScoreRow, ScoreTable
from oodometer.scoring import choices
from oodometer.study import Study, parse_study

SETS = tuple(f"outliers-{number}" for number in range(9))
DETECTORS = ("max_softmax", "energy", "knn", "mahalanobis", "vim", "max_logit", "entropy", "react")


@contextlib.contextmanager
def timed(what: str, count: int = 0, aim: str = "") -> Iterator[None]:
    """Print wall and CPU seconds of a block, and per piece where there are many."""
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    each = f"{1e3 * wall / count:9.3f} ms each" if count else " " * 17
    print(f"{what:54} {wall:8.2f} s wall {cpu:8.2f} s CPU {each}  {aim}")


def large_study(tasks: int, runs_per_detector: bool) -> tuple[Study, dict[str, DataContent]]:
    """A study of so many score cells: of many detectors on each run, or of many runs."""
    detectors = DETECTORS if runs_per_detector else DETECTORS[:1]
    runs = tasks // (len(detectors) * (len(SETS) + 1))
    study = parse_study(
        {
            "name": "large",
            "base": {"data": "digits", "network": "mlp"},
            "factors": [{"field": "seed", "levels": list(range(runs))}],
            "detectors": list(detectors),
            "ood": list(SETS),
        },
        "study",
    )
    digests = {name: hashlib.sha1(name.encode()).hexdigest() for name in SETS}
    content = DataContent("digits", "t" * 40, "i" * 40, digests)
    return study, dict.fromkeys(study.runs(), content)


def peak() -> str:
    """The most memory that this process has used."""
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB at most"


def planning(tasks: int) -> Plan:
    """Plan large studies."""
    with timed("code versions and detectors, once per process"):
        plan(*large_study(1000, True), choices(DETECTORS))
    for many_detectors, words in ((True, "8 detectors per run"), (False, "1 detector per run")):
        study, contents = large_study(tasks, many_detectors)
        with timed(f"plan of {tasks:,} tasks, {words}", aim="aim: 5 s"):
            made = make_plan(study, contents)
        assert sum(len(keys) for run in made.runs for keys in run.scores.values()) >= 0.9 * tasks
    print(f"memory of this process: {peak()}, aim: 1 GiB")
    made = make_plan(*large_study(tasks, True))
    with timed("  noting what it wants in a store", aim=""):
        record_plan(made, MemoryStore())
    return made


def keeping(store: Store, count: int) -> None:
    """Save, find and load artefacts of the size of scores."""
    payload = arrays_to_bytes({"-": np.random.default_rng(0).normal(size=1000)})
    keys = [hashlib.sha1(str(number).encode()).hexdigest() for number in range(count)]
    about = {"parents": keys[:2], "specification": {f"field {n}": n for n in range(25)}}
    kind = type(store).__name__
    with timed(f"{kind}: save", count):
        for key in keys:
            store.save("scores", key, payload, about)
    with timed(f"{kind}: has", count):
        assert all(store.has("scores", key) for key in keys)
    with timed(f"{kind}: load and decode", count, "aim: 20 ms for all of it"):
        for key in keys:
            bytes_to_arrays(store.read("scores", key)[0])


def looking(folder: Path, made: Plan, count: int) -> None:
    """Fill a store with many artefacts and look over it."""
    store = FolderStore(folder)
    record_plan(made, store)
    keys = [part.key for part in made.artefacts if part.kind == "scores"]
    keys += [hashlib.sha1(str(n).encode()).hexdigest() for n in range(count - len(keys))]
    for number, key in enumerate(keys):  # most are links: writing them is not what is measured
        place = folder / "scores" / key[:2]
        if number % 20_000 == 0:
            store.save("scores", key, b"x" * 100, {})
            source = place / key
            continue
        place.mkdir(exist_ok=True)
        (place / key).hardlink_to(source)
        (place / f"{key}.json").hardlink_to(f"{source}.json")
    with timed(f"survey of {len(keys):,} artefacts", aim="aim: 5 s"):
        found = survey(store)
    assert len(found.sizes["scores"]) == len(keys) and found.studies[0].stages["score"][0]
    with timed("  which of the plan's scores are there"):
        assert len(store.present("scores", keys)) == len(keys)
    command = [sys.executable, "-m", "oodometer", "status", str(folder)]
    with timed("  oodometer status, from the start of Python", aim="aim: 5 s"):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def one_table(folder: Path, cells: int, samples: int) -> None:
    """Load the scores of a study as one table, and by opening every file."""
    store = FolderStore(folder)
    rng = np.random.default_rng(0)
    rows = tuple(
        ScoreRow(
            str(n // 10), "knn", f"k={n % 10}", "digits", rng.normal(size=samples), n % 10 == 0
        )
        for n in range(cells)
    )
    table = ScoreTable("digits", rows, {str(n): {"seed": n} for n in range(cells // 10)})
    with timed(f"write {cells:,} cells of {samples} scores as one table"):
        payload = table_to_bytes(table)
    assert table_to_bytes(bytes_to_table(payload)) == payload
    store.save("tables", "ab" * 20, payload, {})
    for row in rows:
        key = hashlib.sha1(f"{row.run} {row.setting}".encode()).hexdigest()
        store.save("scores", key, arrays_to_bytes({"-": row.scores}), {})
    with timed("  load them from the table, checked and mapped", cells):
        bytes_to_table(store.view("tables", "ab" * 20))
    with timed("  load them from their files", cells):
        for key in store.keys("scores"):
            bytes_to_arrays(store.read("scores", key)[0])


def running(folder: Path) -> None:
    """Run a small study, and recognise it when it is finished."""
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 255, (2, 30, 4, 4)).astype(np.uint8), np.arange(30) % 3
    np.savez(
        folder / "noise.npz",
        train_images=images[0],
        train_labels=labels,
        test_images=images[1],
        test_labels=labels,
    )
    levels = list(range(20))
    study = parse_study(
        {
            "name": "small",
            "base": {"data": str(folder / "noise.npz"), "network": "mlp", "width": 2, "epochs": 1},
            "factors": [{"field": "seed", "levels": levels}],
            "detectors": ["max_softmax", "energy", "max_logit", "entropy"],
            "ood": ["inverted"],
        },
        "study",
    )
    tasks = len(levels) * (1 + 3 + 4 * 2)
    store = FolderStore(folder / "run")
    with timed(f"run of {tasks} tasks by one worker, trainings and all", tasks):
        run_study(study, store, workers=1)
    with timed("  the same again: recognised as finished", aim="aim: 2 s"):
        run_study(study, store, workers=1)


def main() -> None:
    """Measure and print."""
    tasks = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    made = planning(tasks)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        keeping(MemoryStore(), 2000)
        keeping(FolderStore(folder / "keeping"), 2000)
        looking(folder / "looking", made, 2 * tasks)
        one_table(folder / "table", 5000, 1000)
        running(folder)


if __name__ == "__main__":
    main()
