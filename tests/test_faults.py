"""Whatever happens to workers and runners, a study ends with the same bytes."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torture
from engine_studies import execute

from oodometer.cli.running import stoppable
from oodometer.engine.executors import Ended, Task
from oodometer.engine.executors.in_process import InProcess
from oodometer.engine.lead import runner as running
from oodometer.engine.lead.run import check_device, run_study
from oodometer.engine.lead.runner import Settings
from oodometer.engine.stores import FolderStore, StoreError
from oodometer.engine.upkeep.watch import Progress
from oodometer.errors import UserError
from oodometer.study import Study, load_study

until = torture.until


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[Path, Study, dict[tuple[str, str], bytes]]:
    """A study, and what its store holds after an undisturbed run, in this process."""
    folder = tmp_path_factory.mktemp("whole")
    path = torture.write_study(folder, 6, ["max_softmax", "energy", "knn(k=3)"], epochs=12)
    study = load_study(path)
    run_study(study, FolderStore(folder / "store"), executor=InProcess())
    return path, study, torture.content(folder / "store")


@pytest.fixture(scope="module")
def probed(tmp_path_factory) -> tuple[Path, Study, dict[tuple[str, str], bytes]]:
    """The store of a finished study of two runs with all kinds of artefacts, and what is in it."""
    folder = tmp_path_factory.mktemp("probed")
    detectors = ["energy", "odin", "binary_network"]
    study = load_study(torture.write_study(folder, 2, detectors, epochs=2))
    run_study(study, FolderStore(folder / "store"), executor=InProcess())
    return folder / "store", study, torture.content(folder / "store")


def number_of(store: Path, kind: str) -> int:
    return sum(1 for _ in FolderStore(store).keys(kind))


# ---- workers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_worker_that_is_lost_costs_only_its_task(
    whole, two_workers, tmp_path, monkeypatch, number
):
    _, study, expected = whole
    monkeypatch.setattr(two_workers, "_silent_ticks", two_workers._silent_ticks)  # also restored
    hit: list[int] = []

    def hit_one(state: Progress) -> None:
        busy = [worker for worker in two_workers._workers if worker.task is not None]
        if not hit and state.train[0] and busy:
            hit.append(busy[0].process.pid or 0)
            os.kill(hit[0], number)
            two_workers._silent_ticks = 12

    outcome = run_study(study, FolderStore(tmp_path), executor=two_workers, progress=hit_one)
    assert hit and not outcome.missing
    assert torture.content(tmp_path) == expected


def test_a_detector_that_crashes_leaves_all_others(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "ATTEMPTS", 1)
    (tmp_path / "own.py").write_text(
        "import os\nimport oodometer as om\n\n\n"
        '@om.detector(paper="Somebody 2026", needs={"logits"})\n'
        'def crash(train):\n    """Crash."""\n    return lambda test: os.abort()\n'
    )
    own = f"{tmp_path}/own.py:crash"
    study = load_study(torture.write_study(tmp_path, 2, ["energy", own, "max_softmax"], epochs=2))
    store = FolderStore(tmp_path / "store")
    outcome = run_study(study, store, workers=1)
    missing = [part for part in outcome.missing if not part.setting]
    assert {(part.run, part.detector) for part in missing} == {
        (label, "crash") for label in study.runs()
    }
    assert all("its worker died 1 times (signal 6)" in part.reason for part in missing)
    assert number_of(store.folder, "failures") == 2
    assert len(outcome.findings) == 1


class Losing(InProcess):
    """Loses the first so many tasks whose name has a certain text in it."""

    def __init__(self, text: str, times: int, *, outside: bool) -> None:
        super().__init__()
        self.text, self.times, self.outside = text, times, outside
        self.names: list[str] = []

    def wait(self, seconds: float) -> list[Ended]:
        task = self._task
        if task is not None:
            self.names.append(task.name)
            if self.text in task.name and self.times:
                self.times -= 1
                self._task = None
                return [Ended(task, lost="gone", outside=self.outside)]
        return super().wait(seconds)


@pytest.mark.parametrize(("outside", "limit"), [(False, 3), (True, 8)])
def test_lost_tasks_are_tried_again_but_not_for_ever(whole, tmp_path, outside, limit):
    _, study, expected = whole
    label = next(iter(study.runs()))
    outcome = run_study(
        study, FolderStore(tmp_path / "a"), executor=Losing(label, limit - 1, outside=outside)
    )
    assert not outcome.missing and torture.content(tmp_path / "a") == expected
    store = FolderStore(tmp_path / "b")
    outcome = run_study(study, store, executor=Losing(label, limit, outside=outside))
    assert [part.run for part in outcome.missing] == [label]
    assert f"its worker died {limit} times" in outcome.missing[0].reason
    assert number_of(store.folder, "failures") == 1
    again = run_study(study, store, executor=InProcess())  # what failed is tried again
    assert not again.missing and number_of(store.folder, "failures") == 0


def test_of_a_lost_piece_what_was_at_work_is_done_alone(whole, tmp_path):
    _, study, expected = whole
    executor = Losing("/", 1, outside=True)  # the first piece that scores
    outcome = run_study(study, FolderStore(tmp_path), executor=executor)
    assert not outcome.missing and torture.content(tmp_path) == expected
    lost = next(name for name in executor.names if "/" in name).partition("/")[0]
    assert sum(name.startswith(f"{lost}/") for name in executor.names) == 1 + 2


# ---- damage -------------------------------------------------------------------------------------

WAYS: dict[str, Callable[[Path], object]] = {
    "flipped": lambda path: path.write_bytes(_flipped(path.read_bytes())),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-7]),
    "emptied": lambda path: path.write_bytes(b""),
    "removed": lambda path: path.unlink(),
}


def _flipped(content: bytes) -> bytes:
    place = len(content) // 2
    return content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]


@pytest.mark.parametrize("suffix", ["", ".json"], ids=["payload", "record"])
@pytest.mark.parametrize("way", WAYS)
def test_a_finished_study_is_whole_again_after_any_damage(probed, tmp_path, way, suffix):
    """Of each kind one; of a model, what came from it is there, and nobody would read it again."""
    finished, study, expected = probed
    shutil.copytree(finished, tmp_path / "store")
    store = FolderStore(tmp_path / "store")
    for place, kind in enumerate(torture.KINDS):
        keys = list(store.keys(kind))
        key = keys[place % len(keys)]
        WAYS[way](store.folder / kind / key[:2] / f"{key}{suffix}")
    outcome = run_study(study, store, executor=InProcess())
    assert not [part for part in outcome.missing if not part.setting]
    assert torture.content(store.folder) == expected
    # It is known to be finished, now without a look at PyTorch.
    assert run_study(study, store, executor=None) == outcome


@pytest.mark.parametrize("kind", ["models", "outputs", "probes", "scores", "plans"])
def test_each_kind_of_damage_is_noticed_for_itself(probed, tmp_path, kind):
    finished, study, expected = probed
    shutil.copytree(finished, tmp_path / "store")
    store = FolderStore(tmp_path / "store")
    key = next(store.keys(kind))
    path = store.folder / kind / key[:2] / key
    before = path.read_bytes()
    WAYS["flipped"](path)
    run_study(study, store, executor=InProcess())
    assert path.read_bytes() == before and torture.content(store.folder) == expected


# ---- runners ------------------------------------------------------------------------------------


def test_killed_again_and_again_it_ends_with_the_same_bytes(whole, tmp_path):
    path, _, expected = whole
    done = torture.torture(path, tmp_path / "store", kills=2, seed=2, longest=6.0, workers=1)
    assert len(done) >= 2
    assert torture.content(tmp_path / "store") == expected


@pytest.mark.parametrize("kill", [False, True], ids=["both live", "one is killed"])
def test_two_runners_share_the_work(whole, two_workers, tmp_path, kill):
    """One is a process of its own; the other, which comes a little later, is this one."""
    path, study, expected = whole
    other = torture.start(path, tmp_path, workers=1)
    until(FolderStore(tmp_path).claims)
    if kill:
        until(lambda: number_of(tmp_path, "models"))
        workers = torture.workers_of(other.pid)

    seen: list[Progress] = []

    def watch(state: Progress) -> None:
        seen.append(state)
        if kill and other.poll() is None:
            other.kill()
            other.communicate()

    run_study(study, FolderStore(tmp_path), executor=two_workers, progress=watch)
    if kill:
        until(lambda: all(map(torture.is_gone, workers)))
    else:
        (made,) = re.findall(r"^made: train (\d+)", torture.finish(other), re.MULTILINE)
        both = int(made) + seen[-1].made[0]
        assert both == number_of(tmp_path, "models"), "a training was done twice"
    assert torture.content(tmp_path) == expected
    left = FolderStore(tmp_path).claims()  # by who was killed when the other had swept already
    assert all(kill and claim.stale for claim in left)


def test_what_a_killed_runner_had_claimed_is_swept(probed, tmp_path):
    finished, study, _ = probed
    shutil.copytree(finished, tmp_path / "store")
    store = FolderStore(tmp_path / "store")
    store.discard("scores", next(store.keys("scores")))
    code = "from oodometer.engine.stores import this_owner; print(this_owner())"
    gone = subprocess.check_output([sys.executable, "-c", code], text=True).strip()
    assert store.claim("train-1", gone, 1e6)
    assert store.claim("train-2", "somebody else, on another machine", 1e6)
    run_study(study, store, executor=InProcess())
    assert [claim.name for claim in store.claims()] == ["train-2"]


def test_what_another_runner_has_is_waited_for(whole, tmp_path, monkeypatch):
    """A run that somebody has claimed is not done twice; it is taken over once he gives it up."""
    _, study, expected = whole
    monkeypatch.setattr(running, "SECONDS_BETWEEN_LOOKS", 0.1)
    other, here = FolderStore(tmp_path), FolderStore(tmp_path)
    claimed: list[str] = []
    real = FolderStore.claim

    def claim(store: FolderStore, name: str, owner: str, seconds: float = 60.0) -> bool:
        if not claimed:
            claimed.append(name)
            assert real(other, name, "somebody else, on another machine", 60.0)
        return real(store, name, owner, seconds)

    monkeypatch.setattr(FolderStore, "claim", claim)
    waits: list[int] = []

    def give_up(state: Progress) -> None:
        done, wanted = state.extract
        if state.elsewhere and 6 * done == 5 * wanted:  # all but one of the six runs
            waits.append(state.elsewhere)
            other.release(claimed[0], "somebody else, on another machine")

    outcome = run_study(study, here, executor=InProcess(), progress=give_up)
    assert waits and not outcome.missing  # it was not kept until the claim expired
    assert torture.content(tmp_path) == expected


def test_a_claim_that_was_lost_is_not_fought_for(whole, tmp_path, monkeypatch):
    """A runner that slept so long that another took over drops its task and goes on."""
    _, study, expected = whole
    monkeypatch.setattr(running, "SECONDS_BETWEEN_RENEWALS", 0.0)
    monkeypatch.setattr(running, "SECONDS_BETWEEN_LOOKS", 0.1)
    refused: list[str] = []
    real = FolderStore.renew

    def renew(store: FolderStore, name: str, owner: str, seconds: float = 60.0) -> bool:
        if not refused:
            refused.append(name)
            return False
        return real(store, name, owner, seconds)

    monkeypatch.setattr(FolderStore, "renew", renew)
    outcome = run_study(study, FolderStore(tmp_path), executor=InProcess())
    assert refused and not outcome.missing
    assert torture.content(tmp_path) == expected


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_to_stop_become_exit_codes(number, capsys):
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as left, stoppable():
        os.kill(os.getpid(), number)
        time.sleep(5)
    assert left.value.code == 128 + number and "again to resume" in capsys.readouterr().err
    assert signal.getsignal(number) is before


def test_a_store_that_fails_ends_the_study_in_one_sentence(whole, tmp_path, monkeypatch):
    _, study, _ = whole
    real = FolderStore.save

    def save(store: FolderStore, kind: str, *rest: object) -> None:
        if kind == "scores":
            raise StoreError("Store 'x' cannot be written: No space left on device.")
        real(store, kind, *rest)

    monkeypatch.setattr(FolderStore, "save", save)
    with pytest.raises(UserError, match="No space left on device"):
        run_study(study, FolderStore(tmp_path), executor=InProcess())
    assert FolderStore(tmp_path).claims() == []


def test_an_error_of_our_own_is_one_sentence_too(capsys):
    with pytest.raises(SystemExit) as ended, stoppable():
        _ = 1 // 0
    assert ended.value.code == 1
    (sentence,) = capsys.readouterr().err.splitlines()
    assert "Internal error: ZeroDivisionError" in sentence
    assert sentence.endswith("Run the same command again to resume.")
    file = Path(sentence.partition(" saved to ")[2].partition(";")[0])
    assert "ZeroDivisionError" in file.read_text()
    file.unlink()


# ---- devices and memory -------------------------------------------------------------------------


def test_devices_are_checked_and_honoured(whole, tmp_path, monkeypatch):
    import torch

    from oodometer.lab.training.train import Training

    with pytest.raises(UserError, match="Unknown device 'gpu'.*Known: cpu, cuda"):
        check_device("gpu", here=True)
    number = torch.cuda.device_count()
    with pytest.raises(UserError, match=f"Device 'cuda:{number}' cannot be used"):
        check_device(f"cuda:{number}", here=True)
    check_device("cuda:7", here=False)  # the nodes of a cluster may have it
    _, study, _ = whole
    places: list[str] = []
    real_training, real_to = Training.__init__, torch.nn.Module.to

    def training(self: Training, *given: object, device: str, **named: object) -> None:
        places.append(f"train on {device}")
        real_training(self, *given, device="cpu", **named)

    def to(self: torch.nn.Module, *given: object, **named: object) -> torch.nn.Module:
        if given == ("cuda:7",):
            places.append("extract on cuda:7")
            return self
        return real_to(self, *given, **named)

    monkeypatch.setattr(Training, "__init__", training)
    monkeypatch.setattr(torch.nn.Module, "to", to)
    run = next(iter(torture_plan(study).runs))
    assert not execute(run, study.ood, ["energy"], FolderStore(tmp_path), "cuda:7")
    assert places == ["train on cuda:7", "extract on cuda:7"]
    assert FolderStore(tmp_path).record("models", run.model)["made_from"]["device"] == "cuda:7"


def torture_plan(study: Study):
    from oodometer.engine.lead.run import make_plan, read_contents

    study = study.model_copy(update={"detectors": ("energy",)})
    return make_plan(study, read_contents(study))


def test_a_task_larger_than_the_memory_runs_alone_and_that_is_said(whole, tmp_path):
    _, study, _ = whole

    class Two(InProcess):
        """As if there were two workers; counts the tasks that are given at the same time."""

        slots, most = 2, 0

        def __init__(self) -> None:
            super().__init__()
            self.given: list[Task] = []

        def idle(self) -> list[str]:
            return [""] * (2 - len(self.given))

        def submit(self, task: Task) -> None:
            self.given.append(task)
            Two.most = max(Two.most, len(self.given))

        def wait(self, seconds: float) -> list[Ended]:
            self._task = self.given.pop(0)
            return super().wait(seconds)

    said: list[str] = []
    settings = Settings(memory=2**20)
    store = FolderStore(tmp_path / "a")
    run_study(study, store, executor=Two(), settings=settings, tell=said.append)
    assert Two.most == 1 and len(said) == 1 and "more than --memory allows (0.0 GB)" in said[0]
    run_study(study, FolderStore(tmp_path / "b"), executor=Two(), settings=Settings(memory=2**40))
    assert Two.most == 2
    assert torture.content(tmp_path / "a") == torture.content(tmp_path / "b")


def test_a_store_that_is_moved_in_mid_run_is_an_error_and_resumes_elsewhere(whole, tmp_path):
    """It ended well and began another store, without its mark, at the old place."""
    _, study, expected = whole
    place, moved = tmp_path / "store", tmp_path / "moved"

    def move(state: Progress) -> None:
        if state.train[0] and place.exists():
            place.rename(moved)

    with pytest.raises(StoreError, match="is gone: it was moved or removed"):
        run_study(study, FolderStore(place), workers=1, progress=move)
    assert not place.exists()
    left = FolderStore(moved).claims()  # nobody could release them, and nobody waits for them
    assert left and all(claim.stale for claim in left)
    run_study(study, FolderStore(moved), executor=InProcess())
    assert torture.content(moved) == expected
