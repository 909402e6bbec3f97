"""Torture a study: kill its runners and workers, stop them, damage its store; compare the bytes.

``make torture`` runs this at length; the tests run it for seconds. With ``--seed`` a schedule of
faults can be repeated.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from data_files import write_stripes

from oodometer.engine.stores import FolderStore

KINDS = ("models", "outputs", "probes", "scores", "tables", "findings")
PATIENCE = 900.0  # seconds; only ever waited for if something is wrong
DETECTORS = ["max_softmax", "energy", "entropy", "max_logit", "knn(k=3)", "mahalanobis", "margin"]


def write_study(folder: Path, runs: int, detectors: list[str], epochs: int) -> Path:
    """Write a study on images of stripes: `runs` trainings, each scored by all detectors."""
    study = {
        "name": "tortured",
        "base": {
            "data": write_stripes(folder / "stripes.npz"),
            "network": "mlp",
            "epochs": epochs,
            "validation": 0.2,
        },
        "factors": [
            {"field": "seed", "levels": list(range(runs // 2))},
            {"field": "epoch", "levels": ["best", "last"]},  # these share a training
        ],
        "detectors": detectors,
        "ood": ["uniform_noise", "inverted"],
    }
    path = folder / "study.yaml"
    path.write_text(json.dumps(study))
    return path


def content(folder: Path) -> dict[tuple[str, str], bytes]:
    """Everything that a store holds, checked by its checksums; records, which tell times, not."""
    store = FolderStore(folder)
    return {(kind, key): store.load(kind, key) for kind in KINDS for key in store.keys(kind)}


def start(study: Path, store: Path, workers: int = 2) -> subprocess.Popen[str]:
    """Start a runner."""
    command = [sys.executable, "-m", "oodometer", "run", str(study), "--store", str(store)]
    return subprocess.Popen(
        [*command, "--workers", str(workers)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(runner: subprocess.Popen[str]) -> str:
    """Wait for a runner that is expected to succeed; return what it said."""
    said, _ = runner.communicate(timeout=PATIENCE)
    assert runner.returncode == 0, said
    assert "nothing missing" in said, said
    assert "Traceback" not in said, said
    return said


def workers_of(runner: int) -> list[int]:
    """Processes that a runner has started to work for it."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            is_worker = b"spawn_main" in (path / "cmdline").read_bytes()
        except (OSError, IndexError):
            continue
        if parent == runner and is_worker:
            found.append(int(path.name))
    return sorted(found)


def is_gone(process: int) -> bool:
    """Whether a process has ended; perhaps nobody has asked yet how."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] in ("Z", "X")


def until(condition: Callable[[], object]) -> None:
    """Wait for something that happens sooner or later, however slow the machine is."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def send(process: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)


def damage(store: Path, chance: random.Random) -> str:
    """Flip, cut or remove a file in a store."""
    files = [
        path
        for path in store.rglob("*")
        if path.is_file() and path.relative_to(store).parts[0] in (*KINDS, "plans", "studies")
    ]
    if not files:
        return "nothing to damage"
    path = chance.choice(sorted(files))
    how = chance.choice(["flip", "cut", "remove"])
    whole = path.read_bytes()
    if how == "remove" or not whole:
        path.unlink()
    elif how == "cut":
        path.write_bytes(whole[: chance.randrange(len(whole))])
    else:
        place = chance.randrange(len(whole))
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    return f"{how} {path.relative_to(store)}"


def torture(
    study: Path,
    store: Path,
    kills: int,
    seed: int,
    longest: float,
    *,
    workers: int = 2,
    tell: bool = False,
) -> list[str]:
    """Run a study with so many kills at random moments, then to its end; return what was done."""
    chance = random.Random(seed)
    done: list[str] = []
    runners: list[subprocess.Popen[str]] = []

    def note(what: str) -> None:
        done.append(what)
        if tell:
            print(f"{len(done):4} {what}", flush=True)

    left = kills
    while left:
        for runner in [runner for runner in runners if runner.poll() is not None]:
            runner.communicate()  # closes the pipe; killed, or done in the meantime
            runners.remove(runner)
        while len(runners) < chance.choice([1, 1, 2]):
            runners.append(start(study, store, workers))
        time.sleep(chance.uniform(0.2, longest))
        runner = chance.choice(runners)
        working = workers_of(runner.pid)
        what = chance.choice(["runner", "runner", "worker", "stop", "term"])
        left -= 1
        if what == "worker" and working:
            send(chance.choice(working), signal.SIGKILL)
            note("killed a worker")
        elif what == "stop" and working:
            stopped = chance.choice(working)
            send(stopped, signal.SIGSTOP)
            time.sleep(chance.uniform(0.2, longest))
            send(stopped, signal.SIGCONT)
            note("stopped a worker and continued it")
        else:
            send(runner.pid, signal.SIGTERM if what == "term" else signal.SIGKILL)
            runner.communicate(timeout=PATIENCE)
            note(f"{'ended' if what == 'term' else 'killed'} a runner")
            if len([other for other in runners if other.poll() is None]) == 0:
                note(damage(store, chance))
    for runner in runners:
        if runner.poll() is None:
            finish(runner)
        else:
            runner.communicate()  # closes the pipe
    finish(start(study, store, workers))
    return done


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kills", type=int, default=50)
    options.add_argument("--runs", type=int, default=28)
    options.add_argument("--epochs", type=int, default=60)
    options.add_argument("--seed", type=int, default=int(time.time()))
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        study = write_study(folder, given.runs, DETECTORS, given.epochs)
        started = time.monotonic()
        finish(start(study, folder / "whole"))
        undisturbed = time.monotonic() - started
        print(
            f"undisturbed: {undisturbed:.0f} s; "
            f"{given.runs * len(DETECTORS)} scores; seed {given.seed}",
            flush=True,
        )
        # On a busy machine, most runners would else be killed before they have done anything.
        longest = max(6.0, undisturbed / 2)
        torture(study, folder / "store", given.kills, given.seed, longest, tell=True)
        whole, tortured = content(folder / "whole"), content(folder / "store")
        assert whole.keys() == tortured.keys(), whole.keys() ^ tortured.keys()
        assert whole == tortured, "other bytes"
        print(f"{given.kills} kills: the same {len(whole)} artefacts, byte by byte")


if __name__ == "__main__":
    main()
