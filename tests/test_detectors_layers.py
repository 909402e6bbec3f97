"""Detectors that ask the network again, against another library, brute force and closed forms."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import oodometer as om
from oodometer.errors import UserError
from oodometer.lab.asking.probes import PROBES
from oodometer.outputs import Outputs, View
from oodometer.registry import DETECTORS, Detector, Scorer, choose
from oodometer.testing import assert_detector, check_detector

ORACLE = json.loads(
    (Path(__file__).parent / "oracles" / "pytorch_ood_probes.json").read_text(encoding="utf-8")
)
LAYERS = ["0", "1", "2"]


def oracle_network() -> nn.Sequential:
    """The network of tests/oracles/make_pytorch_ood_probes.py."""
    model = nn.Sequential(
        nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ELU(), nn.MaxPool2d(2)),
        nn.Sequential(nn.Conv2d(4, 6, 3, padding=1), nn.ELU()),
        nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(24, 8), nn.ELU()),
        nn.Linear(8, 3),
    ).double()
    model.load_state_dict(
        {k: torch.tensor(v, dtype=torch.float64) for k, v in ORACLE["weights"].items()}
    )
    return model


@cache
def outputs() -> dict[str, Outputs]:
    train, test = (torch.tensor(ORACLE[name], dtype=torch.float64) for name in ("train", "test"))
    data = {"train": (train, torch.tensor(ORACLE["labels"])), "test": test}
    needs = ["layers", *(f"probe:{name}" for name in PROBES)]
    return om.extract(
        oracle_network(), data, needs=needs, layers=LAYERS, batch_size=16, lenient=True
    )


def scored(text: str) -> Tensor:
    choice = choose(text)
    return choice.detector.fit(outputs()["train"], **choice.settings)(outputs()["test"])


def in_their_terms(name: str, ours: Tensor) -> Tensor:
    """Our score as the other library defines it."""
    count = len(ORACLE["labels"])
    if name.startswith("odin"):
        return ours.exp() - 1  # minus the probability; ours is log(1 - p)
    if name.startswith("mahalanobis_perturbed"):
        return ours / 2 / count  # half, and a scatter matrix that is not divided
    if name == "mahalanobis_ensemble":
        return ours / count
    if name.startswith("gradient_uncertainty"):
        return -ours.square()
    return ours


@pytest.mark.parametrize("name", [name for name in ORACLE["scores"] if name != "gram"])
def test_agrees_with_pytorch_ood(name: str) -> None:
    theirs = torch.tensor(ORACLE["scores"][name], dtype=torch.float64)
    # Its covariances have 1e-6 on the diagonal; its NAC lifts probabilities by 1e-12.
    exact = 3e-4 if name.startswith("mahalanobis") else 1e-6
    torch.testing.assert_close(in_their_terms(name, scored(name)), theirs, rtol=exact, atol=1e-9)


def test_gram_deviations_are_those_of_pytorch_ood() -> None:
    theirs = torch.tensor(ORACLE["scores"]["gram"], dtype=torch.float64)
    found = outputs()["test"].probes["gram"].sum((1, 2))
    assert (theirs > 0).sum() > 5
    torch.testing.assert_close(found, theirs, rtol=1e-6, atol=1e-9)


def brute_force_gram(maps: Tensor, power: int) -> Tensor:
    """Row sums of the whole Gram matrix of the p-th powers, under a signed root."""
    raised = maps.flatten(2) ** power
    sums = (raised @ raised.transpose(1, 2)).sum(2)
    return sums.sign() * sums.abs() ** (1 / power)


def test_training_deviations_of_gram_leave_the_sample_out() -> None:
    """Against ranges that were computed anew without each sample."""
    model, train = oracle_network(), torch.tensor(ORACLE["train"], dtype=torch.float64)
    found = outputs()["train"].probes["gram"]
    with torch.no_grad():
        group, maps = model(train).argmax(1), train
        for stage in range(3):
            maps = model[stage](maps)
            for power in (1, 2, 7):
                rows = brute_force_gram(maps if maps.dim() == 4 else maps[..., None, None], power)
                for sample in range(0, 45, 4):
                    others = (group == group[sample]) & (torch.arange(45) != sample)
                    low, high = rows[others].amin(0), rows[others].amax(0)
                    below = (low - rows[sample]).clamp_min(0) / (low + 1e-6).abs()
                    above = (rows[sample] - high).clamp_min(0) / (high + 1e-6).abs()
                    expected = float((below + above).sum())
                    assert float(found[sample, stage, power - 1]) == pytest.approx(
                        expected, rel=1e-6, abs=1e-9
                    )


def test_gram_variants_differ_by_what_they_say() -> None:
    deviations = outputs()["test"].probes["gram"].sum(2)
    usual = outputs()["train"].probes["gram"].sum(2).mean(0)
    sure = outputs()["test"].logits.softmax(1).amax(1)
    torch.testing.assert_close(scored("gram"), (deviations / usual).sum(1))
    torch.testing.assert_close(scored("gram(variant=code)"), (deviations / usual).sum(1) / sure)
    torch.testing.assert_close(scored("gram(variant=openood)"), deviations.sum(1) / sure)


def test_a_class_that_is_never_predicted_has_the_range_of_its_labels() -> None:
    model = oracle_network()
    train = torch.tensor(ORACLE["train"], dtype=torch.float64)
    labels = torch.tensor(ORACLE["labels"])
    kept = labels != 2
    relabelled = torch.where(torch.arange(45) % 5 == 0, 2, labels)[kept]
    test = train[~kept]  # predicted 2, which no training sample is
    data = {"train": (train[kept], relabelled), "test": test}
    found = om.extract(model, data, needs=["probe:gram"], layers=LAYERS)["test"].probes["gram"]
    with torch.no_grad():
        rows, ours = (brute_force_gram(model[0](x), 3) for x in (train[kept], test))
    low, high = rows[relabelled == 2].amin(0), rows[relabelled == 2].amax(0)
    below = (low - ours).clamp_min(0) / (low + 1e-6).abs()
    expected = (below + (ours - high).clamp_min(0) / (high + 1e-6).abs()).sum(1)
    torch.testing.assert_close(found[:, 0, 2], expected, rtol=1e-6, atol=1e-9)
    # Without labels, the range of all.
    found = om.extract(
        model, {"train": train[kept], "test": test}, needs=["probe:gram"], layers=LAYERS
    )
    low, high = rows.amin(0), rows.amax(0)
    below = (low - ours).clamp_min(0) / (low + 1e-6).abs()
    expected = (below + (ours - high).clamp_min(0) / (high + 1e-6).abs()).sum(1)
    torch.testing.assert_close(
        found["test"].probes["gram"][:, 0, 2], expected, rtol=1e-6, atol=1e-9
    )


def test_gram_rows_survive_large_and_small_activations() -> None:
    from oodometer.lab.asking.probes.layers import POWERS, gram_rows

    maps = torch.rand(3, 5, 7, generator=torch.Generator().manual_seed(0)) - 0.3
    for scale in (1e-6, 1.0, 1e6):  # the twentieth power of 1e6 is no float32
        rough = gram_rows(scale * maps)
        for place, power in enumerate(POWERS):
            exact = brute_force_gram((scale * maps).double()[..., None], power)
            torch.testing.assert_close(rough[:, place].double(), exact, rtol=2e-5, atol=1e-12)


def test_rankfeat_takes_the_mean_of_the_logits() -> None:
    last, previous = outputs()["test"].probes["rankfeat"].unbind(1)
    torch.testing.assert_close(scored("rankfeat"), -((last + previous) / 2).logsumexp(1))


def test_layers_are_means_over_positions() -> None:
    model, test = oracle_network(), torch.tensor(ORACLE["test"], dtype=torch.float64)
    with torch.no_grad():
        first = model[0](test)
        second = model[1](first)
    layers = outputs()["test"].layers
    torch.testing.assert_close(layers["0"], first.mean((2, 3)))
    torch.testing.assert_close(layers["1"], second.mean((2, 3)))
    torch.testing.assert_close(layers["2"], outputs()["test"].features)


def test_multi_layer_knn_is_a_sum_of_sorted_distances() -> None:
    train, test = outputs()["train"].layers, outputs()["test"].layers
    total = torch.zeros(len(ORACLE["test"]), dtype=torch.float64)
    for name in LAYERS:
        a, b = (nn.functional.normalize(part[name], dim=1) for part in (train, test))
        total += (b[:, None] - a).norm(dim=2).sort(dim=1).values[:, 9]
    torch.testing.assert_close(scored("multi_layer_knn(k=10)"), total)


def test_without_a_step_they_are_their_plain_namesakes() -> None:
    for heat in (1.0, 10.0, 100.0, 1000.0):
        moved = scored(f"odin(temperature={heat}, step=0.0)")
        torch.testing.assert_close(moved, scored(f"odin_without_perturbation(temperature={heat})"))
    torch.testing.assert_close(
        scored("odin_without_perturbation(temperature=1.0)"), scored("max_softmax")
    )
    torch.testing.assert_close(scored("mahalanobis_perturbed(step=0.0)"), scored("mahalanobis"))


def test_a_step_towards_the_mean_comes_closer() -> None:
    still, moved = (
        scored("mahalanobis_perturbed(step=0.0)"),
        scored("mahalanobis_perturbed(step=0.0005)"),
    )
    assert (moved < still).all()
    assert (
        scored("odin(temperature=1.0, step=0.00035)")
        < scored("odin_without_perturbation(temperature=1.0)")
    ).all()


def test_nac_counts_training_samples_by_brute_force() -> None:
    train, test = (outputs()[name].probes["nac"] for name in ("train", "test"))
    state = torch.sigmoid(100 * train), torch.sigmoid(100 * test)
    expected = []
    for row in state[1].tolist():
        total, start = 0.0, 0
        for width in (4, 6, 8):
            covered = 0.0
            for neuron in range(start, start + width):
                cell = min(int(row[neuron] * 50), 49)
                cells = (state[0][:, neuron] * 50).long().clamp(max=49)
                covered += min(int((cells == cell).sum()) / 50, 1.0)
            total += covered / width
            start += width
        expected.append(-total)
    torch.testing.assert_close(scored("nac"), torch.tensor(expected, dtype=torch.float64))


def test_the_probes_ask_for_the_whole_grid() -> None:
    readers = {
        "odin": "odin",
        "odin_fine": "odin_fine",
        "iodin": "iodin",
        "mahalanobis_perturbed": "mahalanobis",
        "mahalanobis_weighted": "mahalanobis_layers",
        "mc_dropout": "mc_dropout",
        "mutual_information": "mc_dropout",
    }
    for name, probe in readers.items():
        measures = {"measure"} if name == "mc_dropout" else set()  # columns of every answer
        numbers = {key: v for key, v in DETECTORS[name].grid.items() if key not in measures}
        assert numbers == PROBES[probe].grid
    assert set(DETECTORS["knn_svm"].grid["k"]) <= set(PROBES["pixel_neighbors"].grid["k"])
    assert {probe for probe, card in PROBES.items() if card.grid} == {
        *readers.values(), "pixel_neighbors"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("odin(temperature=5.0)", "temperature of 'odin' must be one of 1, 10"),
        ("mahalanobis_perturbed(step=0.1)", "must be one of 0, 0.0005, .* got 0.1"),
        ("mc_dropout(samples=8)", "samples of 'mc_dropout' must be one of 7, 15, 30"),
        ("nac(bins=1)", "bins of 'nac' must be at least 2"),
        ("gram(variant=papr)", "Did you mean 'paper'"),
        ("multi_layer_knn(k=46)", "must be at most 45"),
        (
            "mutual_information",
            "at a rate above 0; Sequential runs none",
        ),  # the network has no dropout
    ],
)
def test_what_cannot_be_done_is_said(text: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        scored(text)


def test_other_layers_than_the_fitted_ones_are_refused() -> None:
    train, test = outputs()["train"], outputs()["test"]
    fewer = Outputs(test.logits, test.features, layers={"0": test.layers["0"]})
    for name in ("mahalanobis_ensemble", "multi_layer_knn"):
        choice = choose(name)
        with pytest.raises(UserError, match="fitted on the layers 0, 1, 2, but these outputs lack"):
            choice.detector.fit(train, **choice.settings)(fewer)


def test_the_contract_catches_who_reads_of_training_data_what_they_are_never_asked() -> None:
    def greedy(train: View) -> Scorer:
        """Doubt, compared with that of the training data."""
        usual = train.probe("odin")[:, 0, 0].mean()
        return lambda test: test.probe("odin")[:, 0, 0] - usual

    def modest(train: View) -> Scorer:
        """Doubt."""
        return lambda test: test.probe("odin")[:, 0, 0]

    def as_card(build: Callable[[View], Scorer]) -> Detector:
        return Detector(build.__name__, build, "Nobody 2024", {"probe:odin"}, {})

    failed = [result for result in check_detector(as_card(greedy)) if result.outcome == "failed"]
    assert "runs" in {result.check for result in failed}
    assert "needs the probe 'odin', which these outputs lack" in failed[0].message
    assert_detector(as_card(modest))
