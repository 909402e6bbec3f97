"""Lead a study to its end: hand out tasks, try again what was lost, share with other runners."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from oodometer.engine.executors import Ended, Executor, Resources, Task
from oodometer.engine.lead import tasks
from oodometer.engine.lead.estimates import Cost
from oodometer.engine.lead.jobs import Job, Piece, jobs_of
from oodometer.engine.lead.schedule import Schedule
from oodometer.engine.lead.timing import Timing
from oodometer.engine.plan.artefacts import (
    STAGES,
    Artefact,
    Stage,
    lacking_units,
    made_by_scoring,
    present,
)
from oodometer.engine.plan.plan import Plan
from oodometer.engine.plan.trainings import TrainingPlan
from oodometer.engine.stores import Store, StoreError, end_owner, this_owner
from oodometer.engine.upkeep.watch import (
    MOST_FAILURES,
    SECONDS_BETWEEN_REPORTS,
    CurrentTask,
    Progress,
    RunnerReport,
    remove_report,
    sweep_reports,
    write_report,
)
from oodometer.engine.work.failures import failure_key, known_failures, remember_failure
from oodometer.scores import Missing

ATTEMPTS = 3  # at a task whose worker crashes
ATTEMPTS_IF_KILLED = 8  # from outside: by somebody, by the system, with its machine
SECONDS_BETWEEN_LOOKS = 2.0  # at what other runners do
SECONDS_BETWEEN_RENEWALS = 10.0  # of claims


@dataclass(frozen=True)
class Settings:
    """How a study is executed; no result depends on it."""

    device: str = "cpu"
    gpu_share: float = 1.0  # that a training asks for, if the device is a GPU
    memory: int | None = None  # bytes that tasks may take together


class Runner:
    """One execution of a plan."""

    def __init__(
        self,
        plan: Plan,
        store: Store,
        executor: Executor,
        costs: Mapping[str, Cost],
        settings: Settings,
        *,
        key: str,
        progress: Callable[[Progress], None],
        tell: Callable[[str], None],
    ) -> None:
        self.plan, self.store, self.executor, self.settings = plan, store, executor, settings
        self.missing: list[Missing] = []
        self._made_elsewhere: dict[Stage, set[str]] = {stage: set() for stage in STAGES}  # keys
        self._key, self._report = key, progress
        self._owner = this_owner()
        has = present(plan.artefacts, store)
        jobs = jobs_of(plan.trainings, costs, has)
        self._timing = Timing(jobs, steps=settings.device == "cpu")
        self._timing.learn(store)
        self._wanted: dict[Stage, set[str]] = {stage: set() for stage in STAGES}  # keys
        self._there: dict[Stage, set[str]] = {stage: set() for stage in STAGES}
        for artefact in plan.artefacts:
            self._wanted[artefact.stage].add(artefact.key)
        self._mark(filter(has, plan.artefacts))
        self._failures = known_failures(plan.trainings, store)
        self._found = _counts(self._there)
        self._schedule = Schedule(
            [job for job in jobs if not job.done],
            self._timing.durations,
            slots=executor.slots,
            memory=settings.memory,
            tell=tell,
        )
        self._jobs = {job.run.label: job for job in jobs if not job.search}
        self._claims: dict[str, Job] = {}
        self._trained: set[str] = set()  # training runs that were begun here
        self._last_look = self._last_renewal = time.monotonic()
        self._last_report, self._began = -math.inf, time.time()

    def run(self) -> list[Missing]:
        """Do all that can be done; return what could not."""
        schedule = self._schedule
        try:
            while schedule.open:
                self._let_go()
                self._hand_out()
                if schedule.under_way or self._timing.times_steps:
                    for ended in self.executor.wait(0.25):
                        self._take(ended)
                else:  # what is left is with others, or was found to be done
                    waits = any(job.elsewhere for job in schedule.open)
                    time.sleep(SECONDS_BETWEEN_LOOKS / 4 if waits else 0.01)
                self._look_around()
                for job in schedule.close_done():
                    self._release(job)
                self._tell_progress()
            # A runner may be killed between its last result and the release of its claim.
            with contextlib.suppress(StoreError):  # those of another user, which harm nobody
                self.store.sweep_claims()
                sweep_reports(self.store)
        finally:
            end_owner(self._owner)  # known even if claims cannot be released: the store is gone
            with contextlib.suppress(StoreError):
                remove_report(self._owner, self.store)
                for name in self._claims:
                    self.store.release(name, self._owner)
        return self.missing

    # ---- handing out ---------------------------------------------------------------------------

    def _hand_out(self) -> None:
        for group in self.executor.idle():
            steps = self._timing.next_steps(self.plan.named_detectors)
            if steps is not None:
                self.executor.submit(steps)
                continue
            piece = self._schedule.pick(group, self._claim)
            if piece is not None:
                self._timing.start(piece.name)
                self._trained |= {piece.job.run.training} if piece.trains else set()
                self.executor.submit(self._task(piece))

    def _let_go(self) -> None:
        """Hand out what waited for other runs, once these are extracted or have failed."""
        for job in self._schedule.open:
            if job.blocked and all(self._jobs[plan.label].prepared for plan in job.needs):
                self._schedule.release(job)

    def _task(self, piece: Piece) -> Task:
        run, settings = piece.job.run, self.settings
        work = tasks.Work(
            run, self.plan.study.ood, self.plan.named_detectors, self.store.address, settings.device
        )
        needs = Resources(memory=piece.job.cost.memory)
        if piece.units:
            arguments: tuple[object, ...] = (work, piece.units)
            return Task(piece.name, tasks.score, arguments, needs, run.label)
        if settings.device.startswith("cuda"):
            needs = replace(needs, gpus=settings.gpu_share)
        return Task(piece.name, tasks.prepare, (work,), needs, run.label)

    def _claim(self, job: Job) -> bool:
        """Claim a run, and its training if that is to be done; then see what is left of it."""
        names = [job.claim] if job.trained else [job.claim, _training_claim(job.run)]
        if all(self._claims.get(name) is job for name in names):
            return True
        mine: list[str] = []
        for name in names:
            if name not in self._claims and not self.store.claim(name, self._owner):
                for claimed in mine:
                    self.store.release(claimed, self._owner)
                job.elsewhere = True
                return False
            mine.append(name)
        self._claims.update(dict.fromkeys(mine, job))
        # Another runner may have done some of it in the meantime.
        if not job.working:
            self._refresh(job, elsewhere=True)
        return True

    def _release(self, job: Job) -> None:
        for name in [name for name, owner in self._claims.items() if owner is job]:
            self.store.release(name, self._owner)
            del self._claims[name]

    # ---- what came of it -----------------------------------------------------------------------

    def _take(self, ended: Ended) -> None:
        if self._timing.take_steps(ended):
            return
        piece = self._schedule.end(ended.task.name)
        self._timing.stop(ended.task.name)
        if ended.lost:
            self._try_again(piece, ended)
        elif ended.error:
            self._fail(piece, ended.error, ended.traceback)
        else:
            assert isinstance(ended.value, tasks.Report)
            self._accept(piece, ended.value)
        if piece.trains:
            name = _training_claim(piece.job.run)
            if name in self._claims:
                self.store.release(name, self._owner)
                del self._claims[name]
            for job in self._schedule.open:
                if job.run.training == piece.job.run.training and not job.trained:
                    job.trained = self.store.has("models", job.run.model)
                    self._note_model(job)

    def _accept(self, piece: Piece, report: tasks.Report) -> None:
        job = piece.job
        if report.store_error:
            raise StoreError(report.store_error)
        self.missing += report.missing
        self._timing.note(piece, report)
        for unit in set(piece.units or ("",)) - set(report.failed):
            self._mend(job.run, unit)
        if piece.units:
            made = made_by_scoring(job.run, set(piece.units) - set(report.failed))
            # What was not found cannot be scored, and that is no failure of the detector.
            self._mark(part for part in made if part.kind != "found" or self._has(part))
        elif report.missing:
            self._give_up(job)
        else:
            job.trained = job.prepared = True
            self._mark(part for part in job.run.artefacts if part.stage != "score")

    def _mend(self, run: TrainingPlan, unit: str) -> None:
        """Forget an earlier failure of what is done now."""
        key = failure_key(run, unit)
        if key in self._failures:
            self._failures.remove(key)
            self.store.discard("failures", key)

    def _mark(self, artefacts: Iterable[Artefact]) -> None:
        """Count artefacts as done."""
        for artefact in artefacts:
            self._there[artefact.stage].add(artefact.key)

    def _note_model(self, job: Job) -> None:
        if job.trained:
            self._there["train"].add(job.run.model)

    def _try_again(self, piece: Piece, ended: Ended) -> None:
        """Put a lost piece back, what its worker had not done of it; or give it up."""
        job = piece.job
        limit = ATTEMPTS_IF_KILLED if ended.outside else ATTEMPTS
        if not piece.units:
            job.losses[""] += 1
            if job.losses[""] >= limit:
                self._fail(piece, _died(job.losses[""], ended))
            else:
                self._refresh(job)
            return
        lacking = set(lacking_units(job.run, self._has))
        left = [unit for unit in piece.units if unit in lacking]
        self._mark(made_by_scoring(job.run, set(piece.units) - set(left)))
        job.waiting += left
        if left:  # they are done in order: the first that is not there was at work
            suspect = left[0]
            job.losses[suspect] += 1
            if job.losses[suspect] >= limit:
                job.waiting.remove(suspect)
                self._fail(Piece(job, (suspect,)), _died(job.losses[suspect], ended))

    def _fail(self, piece: Piece, reason: str, traceback: str = "") -> None:
        """Record that a piece could not be done."""
        run = piece.job.run
        if not piece.units:
            self._give_up(piece.job)
        for unit in piece.units or ("",):
            detector = run.units[unit][0].about.name if unit else ""
            failure = Missing(reason, run=run.label, detector=detector, traceback=traceback)
            remember_failure(self.store, run, failure, unit)
            self.missing.append(failure)

    def _give_up(self, job: Job) -> None:
        """Leave undone a run that cannot be prepared, and the searches in it."""
        for part in self._schedule.open:
            if part is job or part.of is job:
                part.give_up()

    # ---- what the store tells ------------------------------------------------------------------

    def _has(self, artefact: Artefact) -> bool:
        return self.store.has(artefact.kind, artefact.key)

    def _refresh(self, job: Job, *, elsewhere: bool = False) -> None:
        """See what is there of a run; what is new was made here, unless it comes from elsewhere."""
        read = job.artefacts if job.search else job.run.artefacts
        there = {part.key for part in read if self._has(part)}
        for part in job.artefacts if elsewhere else ():
            new = part.key in there and part.key not in self._there[part.stage]
            if new and not self._may_be_mine(part, job.run):
                self._made_elsewhere[part.stage].add(part.key)
        job.look_up(lambda part: part.key in there)
        self._mark(part for part in job.artefacts if part.key in there)

    def _may_be_mine(self, part: Artefact, run: TrainingPlan) -> bool:
        """Whether it is a checkpoint in mid-training, or made for another run that shares it."""
        if part.kind == "models":
            return run.training in self._trained
        pieces = self._schedule.under_way.values() if part.stage == "score" else ()
        made = (each for p in pieces if p.units for each in made_by_scoring(p.job.run, p.units))
        return any(each.key == part.key for each in made)

    def _look_around(self) -> None:
        """Now and then: keep claims alive, and see what came from elsewhere."""
        now = time.monotonic()
        if now - self._last_renewal >= SECONDS_BETWEEN_RENEWALS:
            self._last_renewal = now
            self._renew()
        if now - self._last_look < SECONDS_BETWEEN_LOOKS:
            return
        self._last_look = now
        self._timing.watch(self._schedule.under_way, self.store)
        trainings = {
            piece.job.run.training for piece in self._schedule.under_way.values() if piece.trains
        }
        for job in self._schedule.open:
            if job.elsewhere:
                job.elsewhere = False  # the next claim will tell
                self._refresh(job, elsewhere=True)
            elif not job.trained and job.run.training in trainings:
                # A checkpoint in mid-training: who waits for it need not wait for the end.
                job.trained = self.store.has("models", job.run.model)
                self._note_model(job)

    def _renew(self) -> None:
        for name, job in list(self._claims.items()):
            if self.store.renew(name, self._owner):
                continue
            # Taken over: this process was stopped for long. Both would make the same bytes.
            del self._claims[name]
            for piece in [p for p in self._schedule.under_way.values() if p.job is job]:
                self.executor.cancel(piece.name)
                self._schedule.end(piece.name)
                self._timing.stop(piece.name)
                job.waiting += piece.units
            self._release(job)
            job.elsewhere = True

    def _tell_progress(self) -> None:
        """Show progress, and now and then write it into the store, for whoever follows."""
        progress, now = self._progress(), time.monotonic()
        self._report(progress)
        if now - self._last_report < SECONDS_BETWEEN_REPORTS:
            return
        self._last_report = now
        failures = [str(p) for p in self.missing if p.failure]
        report = RunnerReport(
            self._owner,
            self.plan.study.name,
            self._key,
            self._began,
            progress,
            tuple(self._current_tasks()),
            tuple(failures[-MOST_FAILURES:]),
        )
        with contextlib.suppress(StoreError):  # results matter: they say so if they cannot be kept
            write_report(report, self.store)

    def _made(self) -> tuple[int, int, int]:
        counted = zip(_counts(self._there), self._found, _counts(self._made_elsewhere), strict=True)
        train, extract, score = (there - found - other for there, found, other in counted)
        return train, extract, score

    def _current_tasks(self) -> Iterator[CurrentTask]:
        elapsed = self._timing.elapsed()
        for name, piece in self._schedule.under_way.items():
            seconds = round(elapsed.get(name, 0.0), 1)
            yield CurrentTask(piece.job.run.label, piece.stage, piece.units, seconds)

    def _progress(self) -> Progress:
        stages = {stage: (len(self._there[stage]), len(self._wanted[stage])) for stage in STAGES}
        left = self._timing.left(self._schedule)
        return Progress(
            **stages,
            found=self._found,
            made=self._made(),
            failed=sum(part.failure for part in self.missing),
            elsewhere=len({job.run.label for job in self._schedule.open if job.elsewhere}),
            seconds_left=None if left is None else left.seconds,
            at_least=left is not None and left.at_least,
        )


def _counts(keys: Mapping[Stage, set[str]]) -> tuple[int, int, int]:
    train, extract, score = (len(keys[stage]) for stage in STAGES)
    return train, extract, score


def _training_claim(run: TrainingPlan) -> str:
    return f"train-{run.training}"


def _died(times: int, ended: Ended) -> str:
    hint = ", possibly out of memory" if ended.outside else ""
    return f"its worker died {times} times{hint} ({ended.lost})"
