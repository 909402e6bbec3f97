"""A detector whose own network serves all classifiers is one case, however many runs there are."""

import numpy as np
import pytest

from oodometer.errors import UserError
from oodometer.protocols import score_protocol
from oodometer.protocols.common.sources import shared_scores, trained_once
from oodometer.scores import ScoreRow, ScoreTable, SetInfo
from oodometer.stats.comparison import Placements
from oodometer.stats.leaderboard import from_scores, leaderboard

SAMPLES = 400


def scored(rng, shift):
    """ID and OOD scores whose separation is `shift` standard deviations."""
    return rng.normal(0.0, 1.0, SAMPLES), rng.normal(shift, 1.0, SAMPLES)


def table_of(separations, networks, rng):
    """A table of runs: separations[detector][run], same network number -> same scores."""
    runs = {f"seed={n}": {"seed": n} for n in range(len(next(iter(separations.values()))))}
    rows = []
    for detector, shifts in separations.items():
        made = {}
        for (run, levels), shift in zip(runs.items(), shifts, strict=True):
            network = networks.get(detector, range(len(runs)))[levels["seed"]]
            for name, scores in zip(
                ("id", "far"), made.setdefault(network, scored(rng, shift)), strict=True
            ):
                rows.append(ScoreRow(run, detector, "", name, scores))
    return ScoreTable("id", tuple(rows), runs)


def ahead_after_retraining(rng, networks, runs=5, spread=0.25):
    """Whether equal detectors, one of whose networks serves several runs, are separated."""
    drawn = {name: 1.5 + rng.normal(0.0, spread, runs) for name in "abcd"}
    once = 1.5 + rng.normal(0.0, spread, runs)
    drawn["own"] = once[list(networks)]
    pairs = {
        name: Placements.of_runs([scored(rng, shift) for shift in shifts], shared_samples=False)
        for name, shifts in drawn.items()
        if name != "own"
    }
    made = {}
    own = [made.setdefault(n, scored(rng, drawn["own"][k])) for k, n in enumerate(networks)]
    pairs["own"] = Placements.of_runs(own, shared_samples=False)
    different = [tuple(range(runs))] * 4
    pairwise = from_scores(
        list(pairs.values()), retraining=True, sources=[*different, tuple(networks)]
    )
    naive = from_scores(list(pairs.values()), retraining=True)
    separated = []
    for compared in (pairwise, naive):
        board = leaderboard(compared, level=0.95, declared=4)
        place = list(board.order).index(4)
        separated.append(any(d.p_value < 0.05 for n, d in enumerate(board.ours) if n != place))
    return separated


@pytest.mark.parametrize("networks", [(0, 0, 0, 0, 0), (0, 0, 2, 2, 2)], ids=["one", "two"])
def test_equal_detectors_are_rarely_separated(networks):
    rng = np.random.default_rng(5)
    found = np.array([ahead_after_retraining(rng, networks) for _ in range(150)])
    right, naive = found.mean(axis=0)
    assert right < 0.09  # 5%, and what 150 worlds can add to it
    assert naive > 0.15  # runs taken for cases: what this is there to prevent


def test_a_detector_far_behind_is_still_behind():
    rng = np.random.default_rng(0)
    runs = 6
    near = {name: 2.5 + rng.normal(0.0, 0.02, runs) for name in ("vim", "knn", "energy")}
    table = table_of(near | {"pixels": [0.1] * runs}, {"pixels": [0] * runs}, rng)
    finding = score_protocol("ranking")(table, np.random.default_rng(0))
    behind = [claim for claim in finding.claims if "ehind" in claim.text and "pixels" in claim.text]
    assert behind and behind[0].verdict == "holds"


def test_a_small_lead_of_one_network_is_undecided():
    rng = np.random.default_rng(0)
    runs = 6
    near = {name: 1.5 + rng.normal(0.0, 0.1, runs) for name in ("vim", "knn", "energy")}
    table = table_of(near | {"pixels": [1.8] * runs}, {"pixels": [0] * runs}, rng)
    finding = score_protocol("ranking")(table, np.random.default_rng(0))
    assert finding.claims[0].text.startswith("pixels has the highest")
    assert finding.claims[0].verdict == "undecided"
    (caveat,) = [c for c in finding.caveats if c.startswith("Same scores")]
    assert caveat.startswith("Same scores in all 6 training runs: pixels.")


def test_other_detectors_and_single_runs_share_nothing():
    rng = np.random.default_rng(0)
    assert shared_scores(table_of({"vim": [1.0, 1.0]}, {}, rng)) == ()
    assert shared_scores(table_of({"vim": [1.0]}, {}, rng)) == ()
    some = table_of({"vim": [1.0] * 3, "own": [1.0] * 3}, {"own": [0, 0, 2]}, rng)
    assert shared_scores(some) == ("own",) and trained_once(some) == ()
    crossed = [{"seed": seed, "model_seed": own} for seed in range(3) for own in range(3)]
    networks = {"vim": [n // 3 for n in range(9)], "own": [n % 3 for n in range(9)]}
    grid = table_of({"vim": [1.0] * 9, "own": [1.0] * 9}, networks, rng)
    runs = dict(zip(grid.runs, crossed, strict=True))
    assert shared_scores(ScoreTable("id", grid.rows, runs)) == ()
    holes = [row for row in some.rows if (row.run, row.dataset) != ("seed=0", "far")]
    assert shared_scores(ScoreTable("id", tuple(holes), some.runs)) == ("own",)


# ---- other protocols: what one network seems to say about retraining -----------------------------


def world(rng, levels, shifts, *, sets=("far", "near"), settings=("",), samples=120):
    """Detectors `knn` and `vim` of each run, and `pixels`, whose network serves all runs."""
    runs = {", ".join(f"{k}={v}" for k, v in own.items()): own for own in levels}
    rows = []

    def scored(run, detector, shift):
        for name in ("id", *sets):
            base = rng.normal(shift * (name != "id"), 1.0, samples)
            for number, setting in enumerate(settings):
                own = base + 0.2 * number * (name != "id")
                rows.append(ScoreRow(run, detector, setting, name, own, number == 0))

    for run, own in runs.items():
        for detector in ("knn", "vim"):
            scored(run, detector, shifts(detector, own))
    first = next(iter(runs))
    scored(first, "pixels", shifts("pixels", {}))
    own = [row for row in rows if row.detector == "pixels"]
    rows += [ScoreRow(run, "pixels", r.setting, r.dataset, r.scores, r.default)
             for run in runs if run != first for r in own]  # fmt: skip
    return ScoreTable("id", tuple(rows), runs)


def seeds(number):
    return [{"seed": seed} for seed in range(number)]


def told(finding):
    """All that is said, and the sentence that says why `pixels` takes no part."""
    missing = [c for c in finding.claims if c.theme == "missing" and "pixels" in c.text]
    others = [c.text + c.evidence for c in finding.claims if c not in missing]
    tables = [str(cell) for table in finding.tables for row in table.rows for cell in row]
    return " ".join([finding.answer, *others, *tables]), missing


@pytest.mark.parametrize(
    "protocol", ["instability", "robustness", "label_noise", "tuning", "spread"]
)
def test_what_was_not_retrained_is_not_said_to_be_stable(protocol):
    rng = np.random.default_rng(1)
    noise = [{"label_noise": level, "seed": seed}
             for level in ("none", "uniform(rate=0.4)") for seed in range(4)]  # fmt: skip
    optimizers = [{"optimizer": o, "seed": seed} for o in ("sgd", "adam") for seed in range(4)]
    levels = {"label_noise": noise, "robustness": optimizers}.get(protocol, seeds(6))
    settings = ("k=1", "k=2") if protocol == "tuning" else ("",)
    table = world(rng, levels, lambda *_: 1.5 + rng.normal(0, 0.2), settings=settings)
    finding = score_protocol(protocol)(table, np.random.default_rng(0))
    text, missing = told(finding)
    assert "pixels" not in text and "knn" in text and "vim" in text
    (why,) = missing
    assert why.verdict == "undecided" and "same scores in" in why.text


def test_a_protocol_without_anything_retrained_says_so():
    table = world(np.random.default_rng(0), seeds(3), lambda *_: 1.0, settings=("k=1", "k=2"))
    own = ScoreTable("id", tuple(r for r in table.rows if r.detector == "pixels"), table.runs)
    for protocol in ("instability", "robustness", "label_noise", "tuning"):
        with pytest.raises(UserError, match="pixels has the same scores in several"):
            score_protocol(protocol)(own, np.random.default_rng(0))
    mixed = ScoreTable("id", tuple(r for r in table.rows if r.detector == "pixels"
                                   or r.setting == "k=1"), table.runs)  # fmt: skip
    with pytest.raises(UserError, match="several settings that is retrained in every training run"):
        score_protocol("tuning")(mixed, np.random.default_rng(0))


def lucky(rng):
    """Equal detectors, but the one network of `pixels` is among the better ones of its kind."""
    return lambda detector, _: 2.0 + (0.5 if detector == "pixels" else rng.normal(0, 0.4))


def verdicts(protocol, make):
    """Whether the first claim, who is best, is decided: in four worlds."""
    found = [score_protocol(protocol)(make(n), np.random.default_rng(0)) for n in range(4)]
    assert all(finding.claims[0].text.startswith("pixels ") for finding in found)
    return [finding.claims[0].verdict for finding in found]


def od_test_world(number):
    rng = np.random.default_rng(number)
    sets = tuple(f"o{n}" for n in range(5))
    return world(rng, seeds(8), lucky(rng), sets=sets, samples=400)


def test_od_test_does_not_find_a_lucky_network_the_best_detector():
    assert verdicts("od_test", od_test_world) == ["undecided"] * 4
    finding = score_protocol("od_test")(od_test_world(0), np.random.default_rng(0))
    assert any(c.startswith("Same scores in all training runs: pixels.") for c in finding.caveats)


def searched_world(number):
    """The same, and what a search has found against each of them."""
    rng = np.random.default_rng(number)
    table = world(rng, seeds(8), lucky(rng), sets=("far",), samples=400)
    rows, sets = list(table.rows), {}
    for against in table.detectors:
        found = f"affine of far against {against}"
        sets[found] = SetInfo("search", against=against, of="far", by="affine")
        for row in [row for row in table.rows if row.dataset == "far"]:
            lost = 1.0 if row.detector == against else 0.0
            rows.append(ScoreRow(row.run, row.detector, "", found, row.scores - lost))
    return ScoreTable("id", tuple(rows), table.runs, sets=sets)


def test_the_worst_case_does_not_find_a_lucky_network_the_best_detector():
    assert verdicts("worst_case", searched_world) == ["undecided"] * 4
    finding = score_protocol("worst_case")(searched_world(0), np.random.default_rng(0))
    (order,) = [c for c in finding.claims if c.text.startswith("The order")]
    assert "of knn and vim" in order.text or "of vim and knn" in order.text
    (why,) = told(finding)[1]
    assert "How far retraining would move the worst case is unknown for pixels" in why.text


def test_a_search_against_networks_that_were_trained_once_is_about_these():
    table = searched_world(0)
    rows = tuple(row for row in table.rows if row.detector == "pixels" and
                 table.sets[row.dataset].against in ("", "pixels"))  # fmt: skip
    sets = {name: table.sets[name] for name in table.sets if "against pixels" in name}
    finding = score_protocol("worst_case")(
        ScoreTable("id", rows, table.runs, sets=sets), np.random.default_rng(0)
    )
    assert all(claim.text.startswith("On this model, ") for claim in finding.claims)
