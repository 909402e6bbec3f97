"""Attacks on detectors: a planted weakness is found, counted, compared and shown."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import Result
from torch import Tensor, nn
from typer.testing import CliRunner

import oodometer as om
from oodometer.cli import app
from oodometer.errors import UserError
from oodometer.finding import Claim
from oodometer.lab.search import generated
from oodometer.pictures import picture
from oodometer.protocols.worst_case.protocol import worst_case
from oodometer.scores import ScoreRow, ScoreTable, SetInfo


def pictures(count: int, seed: int, level: float = 0.5) -> Tensor:
    drawn = torch.rand(count, 3, 8, 8, generator=torch.Generator().manual_seed(seed))
    return (level + 0.3 * (drawn - 0.5)).clamp(0, 1)


def brightness(images: Tensor) -> Tensor:
    """Bright images are outliers: darkening them fools it."""
    return images.mean((1, 2, 3))


def contrast(images: Tensor) -> Tensor:
    """Images with little contrast are outliers; brightness hardly matters."""
    return -images.std((1, 2, 3))


@pytest.fixture(scope="module")
def attacked() -> om.Attack:
    bright = {"bright": pictures(40, 2, 0.8)}
    detectors = {"brightness": brightness, "contrast": contrast}
    return om.attack_scores(
        detectors, pictures(200, 1, 0.4), bright, variations="color", steps=60, batch_size=100
    )


def test_found_outliers_are_never_better_recognized_than_clean_ones(attacked: om.Attack) -> None:
    for _, _, made in attacked.searches:
        assert (made.scores <= made.clean_scores + 1e-6).all()
    (finding,) = attacked.findings
    table = finding.tables[0]
    clean, worst = (table.columns.index(name) for name in ("clean AUROC", "worst AUROC"))
    by_name = {row[0]: row for row in table.rows}
    assert by_name["brightness"][clean].value == 1.0  # type: ignore[union-attr]
    assert by_name["brightness"][worst].value < 0.7  # type: ignore[union-attr]


def test_auroc_and_lowest_rank_agree_with_counting_pairs(attacked: om.Attack) -> None:
    (finding,) = attacked.findings
    table = finding.tables[0]
    for row in table.rows:
        name = str(row[0])
        known = attacked.table.scores("", name, "id")
        found = attacked.table.scores("", name, f"color of bright against {name}")
        assert known is not None
        assert found is not None
        above = (found[:, None] > known).mean() + (found[:, None] == known).mean() / 2
        assert row[table.columns.index("worst AUROC")].value == pytest.approx(above)  # type: ignore[union-attr]
        assert row[table.columns.index("lowest rank")] == (known < found.min()).sum()


def test_half_of_the_known_data_standardizes_and_the_other_half_is_compared(
    attacked: om.Attack,
) -> None:
    known = attacked.table.scores("", "brightness", "id")
    assert known is not None
    assert len(known) == 100


def test_what_fools_one_detector_is_scored_by_all(attacked: om.Attack) -> None:
    (finding,) = attacked.findings
    transfer = next(table for table in finding.tables if table.name.startswith("transfer"))
    assert {row[0] for row in transfer.rows} == {"brightness", "contrast"}
    assert len(transfer.columns) == 3


def test_the_gallery_shows_what_was_found_beside_where_it_came_from(attacked: om.Attack) -> None:
    (finding,) = attacked.findings
    gallery = finding.galleries[0]
    assert gallery.title == "What fools brightness: color of bright"
    assert len(gallery.pictures) == 8 and all(part.before for part in gallery.pictures)
    _, _, search = attacked.searches[0]
    row = int(np.argmin(search.scores))
    known = attacked.table.scores("", "brightness", "id")
    assert known is not None
    before, after = (int((known < s[row]).sum()) for s in (search.clean_scores, search.scores))
    scores = f"{search.clean_scores[row]:.3f} → {search.scores[row]:.3f}"
    assert gallery.pictures[0].caption == f"rank {before} → {after}\nscore {scores}"
    assert before == 100 and after < 50
    assert picture(search.images[row].numpy()).png == gallery.pictures[0].png


def test_one_figure_shows_the_order_before_and_after(attacked: om.Attack) -> None:
    (finding,) = attacked.findings
    (figure,) = (series for series in finding.series if series.kind == "ranks")
    shown = {(point["label"], point["case"]): point["value"] for point in figure.points}
    table = finding.tables[0]
    for row in table.rows:
        ends = f"{shown[row[0], 'clean']} → {shown[row[0], 'color']}"
        assert row[table.columns.index("place")] == ends


def test_comparisons_do_not_read_what_was_searched_for(attacked: om.Attack) -> None:
    assert attacked.table.ood == ("bright",)


def scores_table(clean: dict[str, float], worst: dict[str, float], runs: int = 1) -> ScoreTable:
    """Normal scores with a known separation of clean and found outliers."""
    rows, sets = [], {}
    for run in range(runs):
        random = np.random.default_rng(run)
        known, outliers = random.normal(size=400), random.normal(size=300)
        for name, value in clean.items():
            label = str(run) if runs > 1 else ""
            noise = 0.3 * random.normal(size=400)
            rows.append(ScoreRow(label, name, "", "test", known + noise, True))
            rows.append(ScoreRow(label, name, "", "far", outliers + value, True))
            for against, shift in worst.items():
                found = f"affine of far against {against}"
                sets[found] = SetInfo("search", against=against, of="far", by="affine")
                own = shift if against == name else value
                rows.append(ScoreRow(label, name, "", found, outliers + own, True))
    levels = {str(run): {"seed": run} for run in range(runs)} if runs > 1 else {"": {}}
    return ScoreTable("test", tuple(rows), levels, sets=sets)


def test_a_leader_that_falls_is_said_to_change() -> None:
    table = scores_table({"a": 3.0, "b": 2.0}, {"a": 0.2, "b": 1.5})
    finding = worst_case(table, np.random.default_rng(0))
    first = finding.claims[0]
    assert first.verdict == "flips"
    text = "On this model, a leads on clean far, but in the affine search on far b has the highest "
    text += "AUROC (0."
    assert first.text.startswith(text)
    assert finding.answer.startswith("a falls from an AUROC of 0.")
    assert finding.answer.endswith(" in the affine search on far. Against such a search, use b.")


def test_a_leader_that_stays_ahead_holds_and_losses_are_counted() -> None:
    table = scores_table({"a": 3.0, "b": 2.0}, {"a": 1.9, "b": 2.0}, runs=4)
    finding = worst_case(table, np.random.default_rng(0))
    texts = {claim.text: claim.verdict for claim in finding.claims}
    assert "The affine search on far lowers the AUROC of a, but not that of b." in texts
    assert finding.facts[-1] == ("training runs", "4")


def test_equal_detectors_are_not_separable() -> None:
    table = scores_table({"a": 2.0, "b": 2.0}, {"a": 1.0, "b": 1.0})
    finding = worst_case(table, np.random.default_rng(0))
    assert finding.claims[0].verdict == "undecided"
    assert finding.answer.endswith(
        "b or a, which are not separable there."
    ) or finding.answer.endswith("a or b, which are not separable there.")


def test_scores_without_a_search_are_refused() -> None:
    table = scores_table({"a": 2.0}, {})
    with pytest.raises(UserError, match="no outliers of a search"):
        worst_case(table, np.random.default_rng(0))


# ---- a classifier and its detectors


@pytest.fixture(scope="module")
def classifier() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 3)
    )


def test_a_classifier_is_attacked_and_left_as_it_was(classifier: nn.Module) -> None:
    state = {name: value.clone() for name, value in classifier.state_dict().items()}
    classifier.train()
    random = torch.get_rng_state()
    train = (pictures(60, 1), torch.arange(60) % 3)
    result = om.attack(
        classifier, train, pictures(40, 2), {"bright": pictures(12, 3, 0.8)},
        detectors=["max_softmax", "knn", "odin"], variations=["affine", "linf(radius=0.05)"],
        steps=6, mean=[0.5], std=[0.25],
    )  # fmt: skip
    assert len(result.searches) == 6
    assert {row.detector for row in result.table.rows} == {"max_softmax", "knn", "odin"}
    assert classifier.training
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(value, classifier.state_dict()[name]) for name, value in state.items())
    for _, name, made in result.searches:
        if name.startswith("linf"):
            assert (made.images - pictures(12, 3, 0.8)).abs().max() <= 0.05 + 1e-6


def test_scores_of_an_attack_are_those_of_evaluate(classifier: nn.Module) -> None:
    train = (pictures(60, 1), torch.arange(60) % 3)
    known, bright = pictures(40, 2), pictures(12, 3, 0.8)
    result = om.attack(
        classifier, train, known, {"bright": bright}, detectors=["knn", "energy"],
        variations="affine", steps=2, mean=[0.5], std=[0.25],
    )  # fmt: skip
    normal = [(part - 0.5) / 0.25 for part in (train[0], known, bright)]
    expected = om.evaluate(
        classifier, (normal[0], train[1]), normal[1], {"bright": normal[2]},
        detectors=["knn", "energy"],
    )  # fmt: skip
    for name in ("knn", "energy"):
        ours, theirs = (t.scores("", name, "bright") for t in (result.table, expected.table))
        assert np.allclose(ours, theirs, rtol=1e-4, atol=1e-5)  # type: ignore[arg-type]


MISBEHAVING = """
import numpy as np

class Refuses:
    def fit(self, images):
        raise ValueError("no fit")

    def score(self, images):
        return images.mean((1, 2, 3))

class Unsure(Refuses):  # of bright images, as searches show them
    def fit(self, images):
        return self

    def score(self, images):
        level = images.mean((1, 2, 3))
        return np.where(level > 0.85, np.nan, -level)
"""


def test_detectors_that_misbehave_are_named_once_and_the_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "misbehaving.py").write_text(MISBEHAVING)
    calls = []

    def fails(images: Tensor) -> Tensor:
        calls.append(len(images))
        if len(calls) > 5:
            raise RuntimeError("no paper")
        return images.mean((1, 2, 3))

    def unsure(images: Tensor) -> Tensor:
        return torch.where(brightness(images) > 0.85, torch.nan, -brightness(images))

    def blind(images: Tensor) -> Tensor:
        return torch.full((len(images),), torch.nan)

    bright = {"bright": pictures(6, 2, 0.8), "dark": pictures(6, 3, 0.2)}
    functions = om.attack_scores(
        {"fails": fails, "blind": blind, "unsure": unsure, "brightness": brightness},
        pictures(40, 1), bright, variations="color", steps=12,
    )  # fmt: skip
    trained = om.attack(
        None, pictures(20, 4), pictures(40, 1), bright, variations="color", steps=12,
        detectors=[f"{tmp_path / 'misbehaving.py'}:{name}" for name in ("Refuses", "Unsure")],
    )  # fmt: skip
    (first,), (second,) = functions.findings, trained.findings
    assert sum("no paper" in line for line in first.missing) == 1
    assert sum("detector blind, data set id" in line for line in first.missing) == 1
    assert sum("no fit" in line for line in second.missing) == 1
    assert {row[0] for row in first.tables[0].rows} == {"unsure", "brightness"}
    assert {row[0] for row in second.tables[0].rows} == {"Unsure"}
    for finding in (first, second):
        passed_over = [text for text in finding.caveats if "were passed over" in text]
        assert len(passed_over) == 1 and "nsure" in passed_over[0]


class Overflows(nn.Module):
    """A classifier whose logits are NaN for bright images."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(192, 3)

    def forward(self, images: Tensor) -> Tensor:
        features = images.flatten(1)
        return self.head(torch.where(brightness(images)[:, None] > 0.85, torch.inf, features))


def test_images_without_finite_logits_are_passed_over() -> None:
    torch.manual_seed(0)
    found = om.attack(
        Overflows(), (pictures(30, 4), np.arange(30) % 3), pictures(40, 1),
        {"bright": pictures(6, 2, 0.8), "dark": pictures(6, 3, 0.2)},
        variations="color", steps=12, detectors=["max_softmax", "energy"],
    )  # fmt: skip
    assert not found.table.missing and len(found.searches) == 4
    for _, name, made in found.searches:
        assert made.steps == 12 and np.isfinite(made.scores).all(), name
    notes = [text for text in found.findings[0].caveats if "were passed over" in text]
    assert notes and all("of bright" in text for text in notes)


def test_a_generator_is_searched_once_for_all_outlier_sets_and_once_per_repeat() -> None:
    def generator(points: Tensor) -> Tensor:
        return points.mean(1).view(-1, 1, 1, 1).expand(-1, 3, 8, 8) / 2 + 0.5

    calls: list[int] = []

    def counted(images: Tensor) -> Tensor:
        calls.append(len(images))
        return brightness(images)

    sets = {"bright": pictures(6, 2, 0.8), "dark": pictures(6, 3, 0.2)}
    result = om.attack_scores(
        {"brightness": counted}, pictures(40, 1), sets, steps=10, batch_size=20, repeats=2,
        variations=generated(generator, 4),
    )  # fmt: skip
    found = {name: made for _, name, made in result.searches}
    one, again, two, _ = found.values()
    assert one is two is not again
    assert [name.partition(" against")[0] for name in found] == (
        ["generated of bright"] * 2 + ["generated of dark"] * 2
    )
    # Known data twice 20, two searches (start, steps, the found ones again), two clean sets, two
    # found ones; never more than a batch.
    assert sum(calls) == 40 + 2 * 6 * (1 + 10 + 1) + 2 * 6 + 2 * 6
    assert max(calls) == 20
    assert len(result.findings[0].galleries) == 1
    assert dict(result.findings[0].facts)["images scored by searches"] == "144"
    columns = result.findings[0].tables[0].columns
    assert "± over repeats" in columns and "± over runs" not in columns


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"variations": []}, "variations is empty"),
        ({"variations": "afine"}, "Did you mean 'affine'"),
        ({"ood": {"b": pictures(3, 0) * 9}}, r"must lie in \[0, 1\]"),
        ({"detectors": {}}, "must map names to functions"),
        ({"id": torch.zeros(4, 5)}, "must be images"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(arguments: dict[str, object], sentence: str) -> None:
    given = {
        "detectors": {"brightness": brightness},
        "id": pictures(20, 1),
        "ood": {"b": pictures(3, 2)},
        "steps": 2,
    } | arguments
    with pytest.raises(UserError, match=sentence):
        om.attack_scores(**given)  # type: ignore[arg-type]


# ---- the command


def run_attack(*arguments: str) -> Result:
    data = ("--train", "digits", "--id", "digits", "--ood", "inverted", "--images", "4")
    return CliRunner().invoke(app, ["attack", *data, "--steps", "2", *arguments])


def test_the_command_writes_scores_searches_and_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "attacked_net.py").write_text(
        "from torch import nn\n"
        "def make():\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    out = tmp_path / "out"
    model = ("--model", "attacked_net:make", "--detector", "energy", "--variation", "affine")
    result = run_attack(*model, "--out", str(out))
    assert result.exit_code == 0, result.output
    assert "affine search on inverted" in result.output
    assert "What fools energy" in (out / "report.html").read_text(encoding="utf-8")
    assert len(list((out / "searches").iterdir())) == 1
    assert (out / "scores.parquet").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--detector", "knn"), "No classifier is given, whose outputs knn would read"),
        (("--detector", "knnn"), "Did you mean 'knn'"),
        (("--detector", "csi", "--size", "huge"), "Unknown size 'huge'"),
    ],
)
def test_the_command_refuses_in_a_sentence(
    arguments: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    result = run_attack(*arguments, "--out", str(tmp_path / "out"))
    assert isinstance(result.exception, UserError)
    assert sentence in str(result.exception)


def runs_table(worst: dict[str, list[float]], samples: int = 300, by: str = "affine") -> ScoreTable:
    """Several runs, each with its own separation of what was found against each detector."""
    rows, sets = [], {}
    runs = len(next(iter(worst.values())))
    for run in range(runs):
        random = np.random.default_rng(run)
        known, outliers = random.normal(size=400), random.normal(size=samples)
        for name in worst:
            rows.append(ScoreRow(str(run), name, "", "test", known, True))
            rows.append(ScoreRow(str(run), name, "", "far", outliers + 3, True))
            for against, shifts in worst.items():
                found = f"{by} of far against {against}"
                sets[found] = SetInfo("search", against=against, of="far", by=by)
                noise = 0.2 * random.normal(size=samples)
                rows.append(ScoreRow(str(run), name, "", found, outliers + shifts[run] + noise))
    levels = {str(run): {"seed": run} for run in range(runs)}
    return ScoreTable("test", tuple(rows), levels, sets=sets)


def claim_about(worst: dict[str, list[float]], start: str) -> Claim:
    """The claim of a table with these separations whose text starts so."""
    claims = worst_case(runs_table(worst), np.random.default_rng(0)).claims
    return next(claim for claim in claims if claim.text.startswith(start))


@pytest.mark.parametrize(
    ("worst", "verdict", "text"),
    [
        ({"a": [2.0] * 3, "b": [1.0] * 3}, "holds", "is the same in all 3 training runs"),
        ({"a": [2.0, 1.0, 2.0], "b": [1.0, 2.0, 1.0]}, "flips", "in some run: a and b"),
        ({"a": [1.0, 1.01, 0.99], "b": [1.0] * 3}, "undecided", "for no pair is each"),
    ],
)
def test_whether_the_worst_case_order_survives_retraining(
    worst: dict[str, list[float]], verdict: str, text: str
) -> None:
    claim = claim_about(worst, "The order")
    assert claim.verdict == verdict
    assert text in claim.text
    assert "of 1 pair keep their order" in claim.evidence or verdict == "flips"


def test_orders_of_runs_are_compared_by_kendalls_tau() -> None:
    from scipy.stats import kendalltau

    worst = {"a": [2.0, 2.0, 1.0], "b": [1.5, 1.0, 1.5], "c": [1.0, 1.5, 2.0], "d": [0.5] * 3}
    taus = [
        kendalltau(*runs).statistic for runs in combinations(zip(*worst.values(), strict=True), 2)
    ]
    evidence = claim_about(worst, "The order").evidence
    assert f"mean Kendall τ between runs {np.mean(taus):.2f}" in evidence


def test_an_order_that_chance_repeats_is_undecided() -> None:
    worst = {"a": [2.0, 1.6, 1.1], "b": [1.0, 1.55, 1.05]}
    claim = claim_about(worst, "The order")
    assert "1 of 1 pair keep" in claim.evidence and claim.verdict == "undecided"
    assert "which may be chance: not separable are a and b" in claim.text
    here = claim_about(worst, "On these 3 models with other test samples, a is significantly ahead")
    assert here.verdict == "holds"


def test_a_loss_that_every_run_shows_is_not_told_with_an_interval_that_doubts_it() -> None:
    worst = {"a": [2.9, 2.8, 0.5], "b": [2.9, 2.8, 0.6]}
    claim = claim_about(worst, "The affine search on")
    assert claim.verdict == "holds" and "points in single runs, significant" in claim.evidence


def test_the_answer_names_who_keeps_the_most_over_all_searches() -> None:
    one = runs_table({"a": [2.5] * 3, "b": [1.5] * 3})
    two = runs_table({"a": [0.5] * 3, "b": [2.0] * 3}, by="color")
    more = (row for row in two.rows if row.dataset.startswith("color"))
    table = ScoreTable("test", (*one.rows, *more), one.runs, sets={**one.sets, **two.sets})
    answer = worst_case(table, np.random.default_rng(0)).answer
    assert (
        answer.startswith("a falls from")
        and "in the color search on far. b keeps the most" in answer
    )
    assert answer.endswith(" in the affine search on far.")


def test_equal_detectors_seldom_flip() -> None:
    """Both are drawn anew in each run: significant in both directions at most in 5%."""
    flips = 0
    for seed in range(40):
        random = np.random.default_rng(seed)
        rows, sets = [], {}
        for run in range(4):
            for name in ("a", "b"):
                rows.append(ScoreRow(str(run), name, "", "test", random.normal(size=100)))
                for found in ("far", "found a", "found b"):
                    rows.append(ScoreRow(str(run), name, "", found, random.normal(size=40) + 1))
        for name in ("a", "b"):
            sets[f"found {name}"] = SetInfo("search", against=name, of="far", by="affine")
        levels = {str(run): {"seed": run} for run in range(4)}
        table = ScoreTable("test", tuple(rows), levels, sets=sets)
        finding = worst_case(table, np.random.default_rng(0))
        flips += any(claim.verdict == "flips" for claim in finding.claims)
    assert flips <= 5
