"""What a detector needs at which setting, the order of a grid, and how what fails is told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import oodometer as om
import oodometer.detectors
from oodometer.errors import UserError
from oodometer.needs import Need, in_text
from oodometer.outputs import Head, Outputs
from oodometer.registry import DETECTORS, Detector, choose
from oodometer.scoring import choices
from oodometer.testing.toys import answering, train_toys, validation_toys


def outputs(rows: int, seed: int) -> Outputs:
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(0)
    head = Head(torch.tensor(fixed.normal(size=(3, 5))), torch.zeros(3).double())
    features = torch.tensor(rng.normal(size=(rows, 5)))
    return Outputs(features=features, labels=torch.arange(rows) % 3, head=head)


def sets(rows: int = 60) -> dict[str, Outputs]:
    return {"train": outputs(rows, 1), "test": outputs(20, 2), "odd": outputs(20, 3)}


def without(name: str) -> dict[str, Outputs]:
    """All sets without head, and without features or logits."""
    return {key: replace(part, head=None, **{name: None}) for key, part in sets().items()}


def test_only_what_a_setting_reads_is_needed():
    card = DETECTORS["mahalanobis"]
    assert in_text(card.needs) == ["features", "labels", "logits"]
    assert in_text(card.needed({})) == ["features", "labels"]
    assert in_text(card.needed({"space": "logits"})) == ["labels", "logits"]
    gradients = DETECTORS["gradient_uncertainty"]
    assert in_text(gradients.needed({"weights": "head"})) == ["features", "relative_logits"]
    assert in_text(DETECTORS["line"].needed({"masks": "all"})) == ["features", "head"]
    assert choose("gradient_uncertainty(weights=head)").beyond_outputs == ()
    assert choose("gradient_uncertainty").beyond_outputs == (Need("probe", "gradient_uncertainty"),)
    assert om.needs_of(["mahalanobis"]) == ("features", "labels")
    assert om.needs_of(["mahalanobis"], grid=True) == ("features", "labels", "logits")


@pytest.mark.parametrize(("lacking", "space"), [("logits", "features"), ("features", "logits")])
def test_mahalanobis_in_one_space_needs_nothing_of_the_other(lacking: str, space: str) -> None:
    name = f"mahalanobis(space={space})"
    rows = om.score(without(lacking), [name]).rows
    for row, expected in zip(rows, om.score(sets(), [name]).rows, strict=True):
        np.testing.assert_array_equal(row.scores, expected.scores)


def test_what_settings_lack_is_told_once():
    """Two settings of mahalanobis and all of knn lack the features, two of the former do not."""
    table = om.score(without("features"), ["mahalanobis", "knn", "energy"], grid=True)
    told = {(part.detector, part.setting): part.reason for part in table.missing}
    assert set(told) == {("mahalanobis", ""), ("knn", "")}
    assert told["mahalanobis", ""] == (
        "Detector 'mahalanobis' needs features, which the outputs that it is fitted on lack."
    )
    assert {row.setting for row in table.rows if row.detector == "mahalanobis"} == {
        "space=logits, covariance=tied",
        "space=logits, covariance=per_class",
    }
    table = om.score(without("logits"), ["mahalanobis"], grid=True)
    (part,) = table.missing
    assert part.setting == "space=logits" and str(part).startswith(
        "detector mahalanobis(space=logits): Detector 'mahalanobis' needs logits"
    )


def test_settings_that_fail_for_their_own_reasons_are_told_apart():
    table = om.score(sets(150), ["knn"], grid=True)
    told = {part.setting: part.reason for part in table.missing}
    assert set(told) == {"k=200", "k=500", "k=1000"}
    assert (
        "must be at most 150, the neighbours that this training set offers, got 200."
        in (told["k=200"])
    )
    assert len(table.rows) == 2 * 2 * 2, "k = 50 and 100, both ways, both sets"


def test_settings_that_have_nothing_in_common_are_told_one_by_one():
    def picky(train, *, a: int = 0, b: int = 0):
        if a != b:
            raise UserError("a and b must be the same.")
        return lambda test: test.logits[:, 0]

    grid = {"a": (0, 1), "b": (0, 1)}
    card = Detector("picky", picky, "Nobody 2024", {"logits"}, grid)
    DETECTORS["picky"] = card
    table = om.score(sets(), ["picky"], grid=True)
    assert [part.setting for part in table.missing] == ["a=1, b=0", "a=0, b=1"]
    assert [row.setting for row in table.rows if row.default] == ["a=0, b=0"] * 2


def test_the_first_setting_varies_fastest():
    """Published searches do so, and of equally good settings the first wins."""
    settings = list(DETECTORS["odin"].settings())
    assert [(s["temperature"], s["step"]) for s in settings[:5]] == [
        (1.0, 0.0),
        (10.0, 0.0),
        (100.0, 0.0),
        (1000.0, 0.0),
        (1.0, 0.00035),
    ]
    table = om.score(sets(), ["generalized_entropy"], grid=True)
    rows = [row for row in table.rows if row.dataset == "odd"]
    assert [row.setting for row in rows[:2]] == ["gamma=0.01, top=10", "gamma=0.1, top=10"]
    assert [row.setting for row in rows if row.default] == ["gamma=0.1, top=100"]


def test_all_does_not_mean_what_is_named_only():
    assert DETECTORS["odin_fine"].only_by_name
    assert len(list(DETECTORS["odin_fine"].settings())) == 210
    assert "probe:odin_fine" not in om.needs_of(grid=True)
    assert om.needs_of(["odin_fine"]) == ("probe:odin_fine", "relative_logits")
    with pytest.raises(UserError, match="temperature of 'odin_fine' must be one of 1, 2, 5, 10"):
        DETECTORS["odin_fine"].fit(sets()["train"], temperature=3.0)


@pytest.mark.parametrize(
    ("needs_for", "sentence"),
    [
        ({"spice": {}}, "Unknown setting in needs_for of detector 'own' 'spice'"),
        ({"space": {"a": frozenset()}}, "must say what every value of space needs: a, b."),
        (
            {"space": {"a": {"labels"}, "b": frozenset()}},
            "needs_for of detector 'own' names what is not among its needs.",
        ),
    ],
)
def test_a_card_that_contradicts_itself_is_refused(needs_for: dict, sentence: str) -> None:
    def own(train, *, space: str = "a"):
        return lambda test: test.logits[:, 0]

    with pytest.raises(UserError, match=sentence):
        Detector("own", own, "N 2024", {"logits"}, {"space": ("a", "b")}, needs_for)


def test_odin_fine_and_odin_agree_where_both_are_asked():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.ELU(), torch.nn.Linear(9, 4))
    model, generator = model.double(), torch.Generator().manual_seed(0)
    data = {n: torch.randn(12, 6, generator=generator).double() for n in ("train", "test", "odd")}
    made = om.extract(model, data, needs=om.needs_of(["odin", "odin_fine"]))
    for heat in (1.0, 10.0, 100.0, 1000.0):
        for step in (0.0, 0.0014, 0.0028):
            both = [f"{n}(temperature={heat}, step={step})" for n in ("odin", "odin_fine")]
            rows = om.score(made, both).rows
            for first, second in zip(rows[:2], rows[2:], strict=True):
                np.testing.assert_array_equal(first.scores, second.scores)
    rows = [row.scores for row in om.score(made, ["odin_fine"], grid=True).rows]
    assert len(np.unique(np.stack(rows[::2]), axis=0)) == 210, "two settings give the same scores"


NUMBERS = [
    (card.name, setting)
    for card in DETECTORS.values()
    for setting, default in card.defaults.items()
    if type(default) in (int, float)
]


@pytest.mark.parametrize(("name", "setting"), NUMBERS)
@pytest.mark.parametrize("value", [-3, 0, 101, 10**12])
def test_what_no_data_allow_is_refused_before_there_are_data(name, setting, value):
    """What fitting refuses, and training data could not mend, `choices` refuses with its words."""
    text = f"{name}({setting}={value})"
    settings = choose(text).settings
    if (setting, value) in [("steps", 101), ("steps", 10**12), ("trees", 10**12)]:
        choices([text])  # possible, and too long to be tried
        return
    try:
        with answering(DETECTORS[name].needs):
            DETECTORS[name].fit(train_toys(), validation=validation_toys(), **settings)
    except UserError as problem:
        of_data = "this training set" in str(problem) or (setting == "kept" and value > 0)
        if of_data:  # a larger training set, or a wider network, would do
            choices([text])
        else:
            with pytest.raises(UserError) as told:
                choices([text])
            assert str(told.value) == str(problem)
    else:
        choices([text])


def test_below_every_range_lies_something_that_is_refused():
    refused = set()
    for name, setting in NUMBERS:
        try:
            choices([f"{name}({setting}=-3)"])
        except UserError as problem:
            assert f"{setting} of '{name}' must be" in str(problem) and "got -3" in str(problem)
            refused.add((name, setting))
    assert refused == set(NUMBERS)


def test_other_peoples_detectors_are_not_run_before_there_are_data():
    calls = []

    @om.detector(paper="Me 2026", needs={"logits"}, grid={"power": (1, 2)})
    def counted(train: om.View, *, power: int = 1) -> om.Scorer:
        """Count how often it is built."""
        calls.append(power)
        return lambda test: test.logits.amax(1) ** power

    try:
        choices(["counted(power=2)"])
        assert not calls
    finally:
        del DETECTORS["counted"]
