"""What is done next, how long it takes, and how much memory it needs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oodometer.engine.executors import Ended
from oodometer.engine.lead import estimates
from oodometer.engine.lead.durations import Durations, Guess
from oodometer.engine.lead.estimates import Asking, Cost, DataSize, Kind, Pace, estimate
from oodometer.engine.lead.jobs import Job, Piece, jobs_of
from oodometer.engine.lead.schedule import Schedule
from oodometer.engine.lead.tasks import Report
from oodometer.engine.lead.timing import Timing
from oodometer.engine.plan.plan import RunPlan
from oodometer.engine.plan.trainings import DataContent
from oodometer.engine.stores import MemoryStore
from oodometer.errors import UserError
from oodometer.study import TrainSpec


@pytest.mark.parametrize(
    ("network", "parameters", "products"),
    [
        # As published: 11.17 M and 0.56 G; 36.5 M and 5.2 G (Zagoruyko and Komodakis 2016).
        ("resnet18", 11.17e6, 0.556e9),
        ("wide_resnet_28_10", 36.5e6, 5.24e9),
    ],
)
def test_networks_are_measured_without_being_made(network, parameters, products):
    size = estimates._network_size(network, None, (3, 32, 32), 10)
    assert size.parameters == pytest.approx(parameters, rel=0.01)
    assert size.products == pytest.approx(products, rel=0.01)
    assert size.features in (512, 640)


def test_longer_trainings_cost_more_and_strange_networks_something():
    data = DataSize(train=1000, scored=500, shape=(1, 8, 8), classes=10, bytes=10**6)
    spec = TrainSpec(data="x", network="mlp", epochs=10)
    cost = estimate(spec, data, 5)
    assert estimate(spec.model_copy(update={"epochs": 20}), data, 5).training > cost.training
    assert estimate(spec.model_copy(update={"network": "cnn"}), data, 5).training > cost.training
    assert estimate(spec.model_copy(update={"network": "no:such"}), data, 5).training > 0
    assert estimate(spec, replace(data, kept=7), 5).memory == cost.memory + 7
    more = estimate(spec, data, 5, keeps_inputs=True)
    assert more.memory >= cost.memory + 1000 * 64 * 4 and more.training == cost.training


@pytest.mark.parametrize(
    ("text", "number"),
    [("4GB", 4 * 10**9), ("512 MiB", 2**29), ("2e9", 2 * 10**9), ("1.5g", 3 * 2**29), ("7", 7)],
)
def test_memory_is_read(text, number):
    assert estimates.read_memory(text) == number


@pytest.mark.parametrize("text", ["", "GB", "4 pounds", "-1GB", "0", "inf", "nan", "1e999", "4xB"])
def test_what_is_no_memory_is_refused(text):
    with pytest.raises(UserError, match="must be a number of bytes such as 4GB"):
        estimates.read_memory(text)


def job(label: str, training: str, seconds: float, detectors: int = 4) -> Job:
    names = [f"d{number}" for number in range(detectors)]
    scores = {name: {"set": f"{label}{name}"} for name in names}
    spec = TrainSpec(data="x", network="mlp")
    content = DataContent("x", "", "", {})
    run = RunPlan(
        label=label, spec=spec, levels={}, content=content, training=training,
        checkpoints={"last": label}, train_outputs="", outputs={"set": ""}, scores=scores,
    )  # fmt: skip
    return Job(run, Cost(seconds, 1.0, 10), waiting=names)


def test_the_longest_comes_first_and_one_trains_for_all():
    jobs = [
        job("short", "a", 1.0),
        job("long", "b", 9.0),
        job("same", "b", 9.0),
        job("c", "c", 5.0),
    ]
    schedule = Schedule(jobs, Durations(), slots=3)
    picked = [schedule.pick("", lambda job: True) for _ in range(4)]
    assert [piece and piece.job.run.label for piece in picked] == ["long", "c", "short", None]
    assert all(piece.trains and not piece.units for piece in picked[:3])
    jobs[2].trained = True  # a checkpoint in mid-training
    follower = schedule.pick("", lambda job: True)
    assert follower is not None and follower.job is jobs[2] and not follower.trains


def test_a_worker_goes_on_with_its_run_and_the_last_pieces_are_shared():
    jobs = [job("one", "a", 2.0, 8), job("two", "b", 1.0, 8), job("three", "c", 0.5, 8)]
    schedule = Schedule(jobs, Durations(), slots=2)
    one, two = (schedule.pick("", lambda job: True) for _ in range(2))
    assert one.job is jobs[0] and two.job is jobs[1]
    schedule.end(one.name)
    jobs[0].trained = jobs[0].prepared = True
    jobs[2].prepared = True  # nothing left to prepare: detectors are handed out in small pieces
    piece = schedule.pick("one", lambda job: True)
    assert piece.job is jobs[0] and len(piece.units) == 2
    thief = schedule.pick("", lambda job: True)
    assert thief.job is jobs[2] and len(thief.units) == 2
    sizes = []
    while (more := schedule.pick("one", lambda job: True)) is not None and more.job is jobs[0]:
        sizes.append(len(more.units))
    assert sizes == sorted(sizes, reverse=True) and sum(sizes) == 6 and sizes[-1] == 1


def test_memory_bounds_what_is_under_way():
    jobs = [job(name, name, 1.0) for name in "abc"]  # each takes 10 bytes
    schedule = Schedule(jobs, Durations(), slots=3, memory=25)
    picked = [schedule.pick("", lambda job: True) for _ in range(3)]
    assert [piece is not None for piece in picked] == [True, True, False]
    schedule.end(picked[0].name)
    assert schedule.pick("", lambda job: True) is not None


def test_the_time_left_is_a_lower_bound_until_every_stage_was_seen():
    schedule = Schedule([job("a", "a", 10.0, 2)], Durations(), slots=1)
    assert schedule.time_left({}) is None
    schedule.durations.note("train", "mlp", 5.0, 1.0)
    assert schedule.time_left({}) == (2.0, True)
    schedule.durations.note("extract", "mlp", 1.0, 0.5)
    assert schedule.time_left({}) == (2.5, True)
    schedule.durations.note("score", "d0", 1.0, 0.25)
    assert schedule.time_left({}) == (2.0 + 0.5 + 2 * 0.25, False)
    schedule.pick("", lambda job: True)
    assert schedule.time_left({"a": 1.0}) == (2.0, False)
    # It takes longer than expected: that is no reason to expect its end now.
    assert schedule.time_left({"a": 100.0}) == (25.0 + 2 * 0.25, False)


def test_indivisible_trainings_are_not_shared_and_other_workers_need_memory():
    def left(jobs: int, **limits) -> float | None:
        schedule = Schedule(
            [job(f"{n}", f"{n}", 600.0, 0) for n in range(jobs)], Durations(), **limits
        )
        schedule.durations.note("train", "mlp", 1.0, 1.0)
        schedule.durations.note("extract", "mlp", 1.0, 0.0)
        return schedule.time_left({}).seconds

    assert left(3, slots=2) == 1200.0, "the third waits for a worker, and then takes ten minutes"
    assert left(1, slots=8) == 600.0 and left(8, slots=8) == 600.0
    assert left(4, slots=4, memory=25) == 1200.0, "two fit into memory, four do not"
    shared = Schedule([job("1", "a", 600.0, 0), job("2", "a", 600.0, 0)], Durations(), slots=2)
    shared.durations.note("train", "mlp", 1.0, 1.0)
    shared.durations.note("extract", "mlp", 1.0, 5.0)
    assert shared.time_left({}).seconds == 610.0, "trained once; the second run is then extracted"


def test_seconds_of_some_epochs_are_not_those_of_all():
    """A checkpoint of the second epoch, or a resumed training, was timed over few epochs."""
    store, done = MemoryStore(), job("a", "a", 100.0)
    done.trained, timing = True, Timing([done])
    about = {"epochs_timed": 2, "seconds": 6.0}
    store.save("models", done.run.model, b"", about)
    timing.learn(store)
    epochs = done.run.last_epoch
    assert timing.durations.seconds("train", "mlp", 100.0) == pytest.approx(3.0 * epochs)
    # Of a training under way, its own pace counts.
    other = job("b", "b", 100.0, 0)
    schedule = Schedule([other], timing.durations, slots=1)
    timing.durations.note("extract", "mlp", 1.0, 0.0)
    assert timing.left(schedule) == (pytest.approx(3.0 * epochs), False)
    timing.start(schedule.pick("", lambda job: True).name)
    about = {"epoch": epochs - 4, "epochs_timed": 1, "seconds": 20.0}
    store.save("progress", other.run.progress, b"", about)
    timing.watch(schedule.under_way, store)
    assert timing.left(schedule).seconds == pytest.approx(80.0, abs=1.0)
    # So it does for those that come later, until this one ends.
    both = 3.0 * epochs + 20.0 * epochs
    assert timing.durations.seconds("train", "mlp", 200.0) == pytest.approx(both)
    timing.note(schedule.end("b"), Report(seconds={("train", ""): 10.0}, trained=0.25))
    timing.stop("b")
    seconds = 3.0 * epochs + 10.0  # for what costs 100 and 25 units
    assert timing.durations.seconds("train", "mlp", 125.0) == pytest.approx(seconds)


def test_what_was_done_counts_before_what_was_expected_and_corrects_it():
    durations = Durations()
    durations.expect("train", "a", 100.0, 10.0)
    durations.expect("train", "b", 1.0, 7.0)  # 70 times as slow by its multiplications
    durations.expect("search", "s", 1.0, 2.0)
    assert durations.guess("train", "b", 2.0) == Guess(14.0, sure=True)
    assert durations.guess("train", "c", 101.0) == Guess(17.0, sure=False), "may be slower"
    assert durations.guess("score", "knn", 1.0) is None
    durations.note("train", "a", 50.0, 20.0)  # 5 s were expected: the machine is busy
    assert durations.guess("train", "a", 50.0) == Guess(20.0, sure=True)
    assert durations.guess("train", "b", 2.0) == Guess(4 * 14.0, sure=True)
    assert durations.guess("search", "s", 1.0) == Guess(4 * 2.0, sure=True)
    fast = Durations()
    fast.expect("train", "a", 1.0, 10.0)
    fast.expect("train", "b", 1.0, 10.0)
    fast.note("train", "a", 1.0, 1.0)
    assert fast.guess("train", "b", 1.0) == Guess(10.0, sure=True)
    durations.note("search", "other", 1.0, 100.0)  # nothing was expected of it
    assert durations.guess("search", "s", 1.0) == Guess(8.0, sure=True)
    durations.note_part("task", "train", "b", 1.0, 14.0)  # 2 s for each of 7
    assert durations.guess("train", "b", 1.0) == Guess(14.0, sure=True)
    durations.forget_part("task")
    assert durations.guess("train", "b", 1.0) == Guess(28.0, sure=True)


def searched(label: str, asking: Asking, kind: Kind | None = None) -> tuple[Job, Job]:
    """A run that is prepared but for its training, and a search against a detector of it."""
    from oodometer.engine.plan.searches import SearchPlan
    from oodometer.study import Searches

    plan = SearchPlan("d0", "set", "affine", "s", (), Searches(variations=("affine",)))
    run = replace(job(label, label, 1.5e11, 0).run, searches={plan.title: plan})
    unit = f"search for {plan.title}"
    cost = Cost(1.5e11, 100.0, 10, sample=1.0, samples=50, kind=kind, asking={unit: asking})
    whole, search = jobs_of([run], {label: cost}, lambda part: False)
    return whole, search


def test_timed_steps_tell_the_time_left_before_anything_is_done():
    """Training on 50 samples in batches of 32; then 100 answers; then a search of 500."""
    kind = Kind(TrainSpec(data="-"), (1, 8, 8), 10)
    jobs = [*searched("one", Asking("d0 by affine", {"mlp": 500.0}), kind)]
    jobs += searched("two", Asking("d0 by affine", {"mlp": 500.0}), kind)  # the same search
    timing = Timing(jobs)
    schedule = Schedule(jobs, timing.durations, slots=1)
    assert timing.left(schedule) is None
    task = timing.next_steps(["max_softmax"])
    assert task.arguments == (kind, ("max_softmax",)) and timing.times_steps
    assert timing.next_steps([]) is None, "each kind is timed once"
    assert not timing.take_steps(Ended(replace(task, name="other")))
    pace = Pace(
        step=1.0, sample=0.1, finish=0.01, answer=0.02, draw=0.3, whole=True, timed=3,
        spent=2.0, waited=4.0,
    )  # fmt: skip
    assert timing.take_steps(Ended(task, pace)) and not timing.times_steps
    training = jobs[0].run.last_epoch * (2 * 1.0 + 50 * 0.1) + 50 * 0.01 + 0.3
    idle = 2 * (training + 2.0) + 10.0
    assert timing.left(schedule) == (pytest.approx(2 * idle), False), "the machine is busy"
    drawing = Timing(jobs)
    drawing.take_steps(Ended(drawing.next_steps([]), pace._replace(whole=False)))
    longer = drawing.left(Schedule(jobs, drawing.durations, slots=1))
    assert longer == (pytest.approx(2 * idle), True)
    # An answer that takes longer in the search than alone: so do those to come.
    for each in jobs:
        each.trained = each.prepared = True
    timing.note(Piece(jobs[1], (jobs[1].search,)), Report(seconds={("score", jobs[1].search): 5.0}))
    assert timing.left(schedule) == (pytest.approx(5.0), False)


def test_short_studies_and_those_on_other_devices_are_not_timed():
    kind = Kind(TrainSpec(data="-"), (1, 8, 8), 10)
    one = job("one", "one", 1e9)
    one.cost = replace(one.cost, kind=kind)
    assert Timing([one]).next_steps([]) is None
    long = replace(one.cost, training=1e12)
    assert Timing([replace(one, cost=long)], steps=False).next_steps([]) is None
    assert Timing([replace(one, cost=long)]).next_steps([]) is not None
    assert Timing([replace(one, cost=long, trained=True)]).next_steps([]) is None


SNAPSHOT = 10.0  # seconds after which the pace of a training is known


def simulated(jobs: list[Job], true, slots: int) -> list[tuple[float, float | None]]:
    """Follow a study by an event clock; `true` tells how long the parts of a piece take.

    Return which time was said to be left when, and as the last what it took.
    """
    schedule = Schedule(jobs, Durations(), slots=slots)
    now, said, started, ends = 0.0, [], {}, {}
    groups = dict.fromkeys(range(slots), "")
    while schedule.open:
        for worker in [w for w in groups if w not in {slot for _, slot in ends.values()}]:
            piece = schedule.pick(groups[worker], lambda job: True)
            if piece is not None:
                started[piece.name], groups[worker] = now, piece.job.run.label
                ends[piece.name] = now + sum(true(piece).values()), worker
        following = min(end for end, _ in ends.values())
        while now < following:  # a look every few seconds, and when something ends
            elapsed = {name: now - started[name] for name in ends}
            training = {
                name: true(schedule.under_way[name])["train", "mlp"] - seconds
                for name, seconds in elapsed.items()
                if schedule.under_way[name].trains and seconds >= SNAPSHOT
            }
            left = schedule.time_left(elapsed, training)
            said.append((now, None if left is None or left.at_least else left.seconds))
            now = min(following, now + 3.0)
        name = min(ends, key=ends.get)
        del ends[name]
        piece = schedule.end(name)
        for (stage, which), seconds in true(piece).items():
            units = piece.job.cost.training if stage == "train" else 1.0
            schedule.durations.note(stage, which, units, seconds)
        if not piece.units:
            piece.job.trained = piece.job.prepared = True
        schedule.close_done()
    return [*said, (now, 0.0)]


def takes(seconds_per_unit, extract: float = 5.0, score: float = 2.0):
    def true(piece):
        if piece.units:
            return {("score", label): score for label in piece.units}
        label, units = piece.job.run.label, piece.job.cost.training
        train = {("train", "mlp"): seconds_per_unit(label) * units} if piece.trains else {}
        return {**train, ("extract", "mlp"): extract}

    return true


@pytest.mark.parametrize("slots", [1, 2, 3, 8])
@pytest.mark.parametrize("units", [[60.0] * 12, [10.0] * 9 + [600.0] * 3, [5.0, 50.0, 500.0] * 4])
def test_the_time_left_is_right_where_work_takes_what_it_should(units, slots):
    jobs = [job(f"{n}", f"{n}", cost) for n, cost in enumerate(units)]
    *said, (end, _) = simulated(jobs, takes(lambda label: 1.0), slots)
    told = [(now, left) for now, left in said if left is not None]
    assert told
    for now, left in told:
        assert abs(left - (end - now)) < 0.05 * end + 10.0, (now, left, end - now)


@pytest.mark.parametrize("slots", [2, 4])
@pytest.mark.parametrize("slower", [3.0, 15.0])
def test_the_time_left_is_never_next_to_nothing_long_before_the_end(slots, slower):
    """The last trainings are much slower than any before, which their first epochs tell."""
    jobs = [job(f"{n}", f"{n}", 60.0) for n in range(12)]
    late = {f"{n}" for n in range(12 - slots, 12)}
    *said, (end, _) = simulated(jobs, takes(lambda label: slower if label in late else 1.0), slots)
    began = end - 60.0 * slower - 5.0 - 8.0  # the last trainings, their extraction and scoring
    for now, left in said:
        if now > began + SNAPSHOT + 3.0:
            assert abs(left - (end - now)) < 0.05 * end + 10.0, (now, left, end - now)


def test_searches_are_handed_out_one_at_a_time_and_what_they_find_is_scored_at_the_end():
    from oodometer.engine.plan.searches import SearchPlan
    from oodometer.study import Searches

    one = job("one", "a", 1.0, 2)
    wanted = Searches(variations=("affine",))
    plans = [SearchPlan(f"d{n}", "set", "affine", f"s{n}", (), wanted) for n in range(2)]
    found = {f"d{n}": {plan.title: f"f{n}{plan.key}" for plan in plans} for n in range(2)}
    run = replace(one.run, searches={plan.title: plan for plan in plans}, found=found)
    whole, *searches = jobs_of([run], {"one": one.cost}, lambda part: part.stage != "score")
    assert whole.blocked == ["d0 on found images", "d1 on found images"]
    assert [job.blocked for job in searches] == [[job.search] for job in searches]
    assert len({job.claim for job in (whole, *searches)}) == 3
    schedule = Schedule([whole, *searches], Durations(), slots=1)
    handed: list[tuple[str, ...]] = []
    while schedule.open:
        for job_of_it in schedule.open:
            schedule.release(job_of_it)
        piece = schedule.pick("", lambda job: True)
        handed.append(piece.units)
        schedule.release(whole)  # of what is under way, nothing is found yet
        schedule.end(piece.name)
        schedule.close_done()
    assert handed == [
        ("d0", "d1"),
        ("search for affine of set against d0",),
        ("search for affine of set against d1",),
        ("d0 on found images", "d1 on found images"),
    ]


def test_a_search_that_runs_share_is_not_done_twice_at_once():
    from oodometer.engine.plan.searches import SearchPlan
    from oodometer.study import Searches

    wanted, runs = Searches(variations=("affine",)), []
    for label in ("one", "two"):
        plans = [
            SearchPlan("shared", "set", "affine", "s", (), wanted),
            SearchPlan("own", "set", "affine", f"s{label}", (), wanted),
        ]
        run = job(label, label, 1.0, 0).run
        runs.append(replace(run, searches={plan.title: plan for plan in plans}))
    cost = Cost(1.0, 1.0, 10)
    jobs = jobs_of(runs, {"one": cost, "two": cost}, lambda part: part.stage != "score")
    schedule = Schedule([job for job in jobs if not job.done], Durations(), slots=2)
    for each in schedule.open:
        schedule.release(each)
    handed = [schedule.pick(label, lambda job: True).units[0] for label in ("one", "two")]
    assert [unit.rpartition(" ")[2] for unit in handed] == ["shared", "own"]
