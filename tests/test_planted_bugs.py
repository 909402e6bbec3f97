"""Bugs seen in published code, and classics: the contract must name each of them.

Every bug stands beside its clean twin, which differs in the bug only and keeps the contract.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from torch import Tensor

from oodometer.outputs import View
from oodometer.registry import Detector, Scorer
from oodometer.testing import CHECKS, WHOLE_CHECKS, assert_detector, check_detector
from oodometer.testing.checks import Broken

Build = Callable[..., Scorer]


@dataclass(frozen=True)
class Planted:
    buggy: Build
    clean: Build
    caught_by: str
    needs: set[str]
    grid: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    paper: str = "Nobody et al. 2024"


PLANTED: dict[str, Planted] = {}


def plant(caught_by: str, needs: set[str], grid: Mapping[str, tuple[object, ...]] | None = None):
    """Register the function, which returns the pair (buggy, clean), under its own name."""

    def add(pair: Callable[[], tuple[Build, Build]]) -> Callable[[], tuple[Build, Build]]:
        buggy, clean = pair()
        PLANTED[pair.__name__] = Planted(buggy, clean, caught_by, needs, grid or {})
        return pair

    return add


def energy(logits: Tensor) -> Tensor:
    return -logits.logsumexp(1)


@plant("inputs_untouched", {"features", "head"})
def prunes_its_input_in_place():
    """pytorch-ood's ASH zeroes a view of the features that it was handed."""

    def prune(copy: bool) -> Build:
        def build(train: View) -> Scorer:
            def score(test: View) -> Tensor:
                x = test.features.clone() if copy else test.features
                top = x.topk(20, dim=1)
                x.zero_().scatter_(1, top.indices, top.values)
                return energy(test.head(x))

            return score

        return build

    return prune(copy=False), prune(copy=True)


@plant("inputs_untouched", {"features"})
def writes_through_a_numpy_view():
    """NumPy shares the memory and leaves PyTorch's write counter alone."""

    def normalize(copy: bool) -> Build:
        def build(train: View) -> Scorer:
            bank = train.features.numpy().copy() if copy else train.features.numpy()
            bank /= np.linalg.norm(bank, axis=1, keepdims=True)
            centre = torch.from_numpy(bank.mean(0))
            return lambda test: -(test.features @ centre)

        return build

    return normalize(copy=False), normalize(copy=True)


@plant("sure_predictions", {"logits"})
def saturates():
    """1 - max softmax: everything ties once the network is sure."""

    def gap(test: View) -> Tensor:
        first, second = test.logits.topk(2, dim=1).values.T
        return second - first

    return lambda train: lambda test: 1 - test.logits.softmax(1).amax(1), lambda train: gap


@plant("single_precision", {"logits"})
def works_in_half_precision():
    return (
        lambda train: lambda test: energy(test.logits.half()).double(),
        lambda train: lambda test: energy(test.logits.float()).double(),
    )


@plant("direction", {"logits"})
def is_upside_down():
    """A confidence is returned as if it were an outlier score (OpenOOD's Gram had this)."""
    return (
        lambda train: lambda test: test.logits.logsumexp(1),
        lambda train: lambda test: -test.logits.logsumexp(1),
    )


@plant("batches_do_not_matter", {"logits"})
def normalizes_by_the_batch():
    def build(reference: str) -> Build:
        def fit(train: View) -> Scorer:
            known = energy(train.logits)

            def score(test: View) -> Tensor:
                values = energy(test.logits)
                by = values if reference == "test" else known
                return (values - by.mean()) / by.std(correction=0).clamp_min(1e-9)

            return score

        return fit

    return build("test"), build("train")


def nearest_centre(classes: Callable[[Tensor], list[int]]) -> Build:
    def fit(train: View) -> Scorer:
        members = [train.logits[train.labels == c] for c in classes(train.labels)]
        centres = torch.stack([rows.mean(0) for rows in members])
        return lambda test: torch.cdist(test.logits, centres).amin(1)

    return fit


def present(labels: Tensor) -> list[int]:
    return sorted(set(labels.tolist()) - {-1})


@plant("runs", {"logits", "labels"})
def reads_the_labels_of_scored_data():
    def buggy(train: View) -> Scorer:
        return lambda test: -test.logits.gather(1, test.labels[:, None])[:, 0]

    return buggy, nearest_centre(present)


@plant("missing_class", {"logits", "labels"})
def averages_no_samples():
    """The mean of a class without samples is NaN."""
    return nearest_centre(lambda labels: [0, 1, 2, 3, 4]), nearest_centre(present)


@plant("runs", {"logits"})
def reads_what_it_did_not_declare():
    return (
        lambda train: lambda test: -test.features.norm(dim=1),
        lambda train: lambda test: -test.logits.norm(dim=1),
    )


@plant("class_order_does_not_matter", {"logits"})
def treats_the_first_class_specially():
    """A background class is assumed at place 0."""
    return (
        lambda train: lambda test: energy(test.logits[:, 1:]),
        lambda train: lambda test: energy(test.logits),
    )


@plant("repeatable", {"features"})
def projects_at_random_without_a_seed():
    """An unseeded generator: no global state is touched, yet no two fits agree."""

    def build(seed: int | None) -> Build:
        def fit(train: View) -> Scorer:
            rows = np.random.default_rng(seed).permutation(train.features.shape[1])[:40]
            kept = torch.from_numpy(np.sort(rows))
            return lambda test: -test.features[:, kept].sum(1)

        return fit

    return build(None), build(0)


@plant("no_global_randomness", {"logits"})
def seeds_everybody():
    """torch.manual_seed inside: repeatable, and from now on so is everything else."""

    def noise(rows: int, generator: torch.Generator | None) -> Tensor:
        return torch.randn(rows, 5, generator=generator, dtype=torch.float64)

    def buggy(train: View) -> Scorer:
        torch.manual_seed(0)
        direction = noise(1, None)[0].sum()
        return lambda test: energy(test.logits) + 0 * direction

    def clean(train: View) -> Scorer:
        direction = noise(1, torch.Generator().manual_seed(0))[0].sum()
        return lambda test: energy(test.logits) + 0 * direction

    return buggy, clean


@plant("no_global_randomness", {"features"})
def samples_the_training_set_by_the_global_state():
    def build(choose: Callable[[int], list[int]]) -> Build:
        def fit(train: View) -> Scorer:
            centre = train.features[choose(len(train))].mean(0)
            return lambda test: -(test.features @ centre)

        return fit

    return build(lambda n: random.sample(range(n), 50)), build(lambda n: list(range(n)))


@plant("training_order_does_not_matter", {"features"})
def fits_on_the_first_rows():
    """Only the first batch of the training data is used."""
    return (
        lambda train: lambda test: -(test.features @ train.features[:64].mean(0)),
        lambda train: lambda test: -(test.features @ train.features.mean(0)),
    )


@plant("row_order_does_not_matter", {"logits"})
def adds_the_row_number():
    """A counter meant for the progress bar ends up in the score."""
    return (
        lambda train: lambda test: energy(test.logits) + 1e-3 * torch.arange(len(test)),
        lambda train: lambda test: energy(test.logits),
    )


@plant("keeps_no_memory", {"logits"})
def keeps_a_running_mean():
    def buggy(train: View) -> Scorer:
        seen = [energy(train.logits).mean()]

        def score(test: View) -> Tensor:
            seen.append(energy(test.logits).mean())
            return energy(test.logits) - torch.stack(seen).mean()

        return score

    def clean(train: View) -> Scorer:
        usual = energy(train.logits).mean()
        return lambda test: energy(test.logits) - usual

    return buggy, clean


@plant("keeps_no_memory", {"logits"})
def is_relative_to_the_largest_that_it_has_seen():
    """After the first outliers nothing changes any more: only a fresh fit shows it."""

    def build(remember: bool) -> Build:
        def fit(train: View) -> Scorer:
            largest = [float(energy(train.logits).max())]

            def score(test: View) -> Tensor:
                if remember:
                    largest[0] = max(largest[0], float(energy(test.logits).max()))
                return energy(test.logits) - largest[0]

            return score

        return fit

    return build(True), build(False)


@plant("grid_matters", {"logits"}, {"temperature": (1.0, 10.0)})
def ignores_its_setting():
    """A hyper-parameter search that changes nothing (two libraries had this)."""

    def buggy(train: View, *, temperature: float = 1.0) -> Scorer:
        return lambda test: energy(test.logits)

    def clean(train: View, *, temperature: float = 1.0) -> Scorer:
        return lambda test: temperature * energy(test.logits / temperature)

    return buggy, clean


@plant("runs", {"logits"})
def returns_nan_for_some_rows():
    """0 log 0."""

    def entropy(lowest: float) -> Build:
        def score(test: View) -> Tensor:
            p = test.logits.softmax(1)
            p = torch.where(p < 1e-6, lowest, p)
            return -(p * p.log()).sum(1) + 1e-3 * energy(test.logits)

        return lambda train: score

    return entropy(0.0), entropy(1e-6)


@plant("runs", {"logits"})
def returns_a_column():
    return (
        lambda train: lambda test: -test.logits.amax(1, keepdim=True),
        lambda train: lambda test: -test.logits.amax(1),
    )


@plant("single_row", {"logits"})
def squeezes_a_single_row_away():
    return (
        lambda train: lambda test: -test.logits.amax(1, keepdim=True).squeeze(),
        lambda train: lambda test: -test.logits.amax(1, keepdim=True).squeeze(1),
    )


@plant("dead_units", {"features"})
def inverts_a_singular_matrix():
    """The covariance of a dead unit has no inverse."""

    def build(ridge: float) -> Build:
        def fit(train: View) -> Scorer:
            x = train.features - train.features.mean(0)
            precision = torch.linalg.inv(x.T @ x / len(x) + ridge * torch.eye(x.shape[1]).to(x))
            centre = train.features.mean(0)
            return lambda test: (
                (test.features - centre) @ precision * (test.features - centre)
            ).sum(1)

        return fit

    return build(0.0), build(1e-3)


@plant("needs_are_read", {"logits", "features"})
def declares_too_much():
    """Nobody without features can use it, for no reason; the twin reads both."""
    return (
        lambda train: lambda test: energy(test.logits),
        lambda train: lambda test: energy(test.logits) - test.features.sum(1),
    )


def as_detector(name: str, build: Build, planted: Planted) -> Detector:
    build.__doc__ = "A planted bug, or its clean twin."
    return Detector(name, build, planted.paper, planted.needs, planted.grid)


@pytest.mark.parametrize("name", PLANTED)
def test_the_bug_is_caught_by_name(name: str) -> None:
    planted = PLANTED[name]
    results = check_detector(as_detector(name, planted.buggy, planted))
    failed = {result.check for result in results if result.outcome == "failed"}
    assert planted.caught_by in failed
    assert all(result.message for result in results)


@pytest.mark.parametrize("name", PLANTED)
def test_the_clean_twin_passes(name: str) -> None:
    planted = PLANTED[name]
    assert_detector(as_detector(name, planted.clean, planted))


def test_every_check_catches_something() -> None:
    caught = {planted.caught_by for planted in PLANTED.values()}
    assert caught >= {*CHECKS, *WHOLE_CHECKS} - {"card"}  # which has its own test below


def test_an_incomplete_card_is_caught() -> None:
    def nameless(train: View) -> Scorer:
        return lambda test: energy(test.logits)

    undated = Detector("nameless", nameless, "unpublished", {"logits"}, {})
    (result,) = (r for r in check_detector(undated) if r.check == "card")
    assert result.outcome == "failed" and result.message == "the docstring needs a first line."
    nameless.__doc__ = "Energy."
    with pytest.raises(AssertionError, match=r"card failed .* 'unpublished' needs a year"):
        assert_detector(undated)


@pytest.mark.parametrize(
    ("paper", "dated"),
    [
        ("You 2026", True),
        ("You 2026b, arXiv:0000.00000", True),
        ("You (2026)", True),
        ("You, 1998.", True),
        ("You, arXiv:2003.01234", False),
        ("You, doi:10.1109/TPAMI.2013.83", False),
        ("You 20261", False),
        ("You 2026bc", False),
        ("You 2126", False),
        ("You", False),
    ],
)
def test_a_paper_has_a_year_as_citations_print_it(paper, dated):
    def largest(train: View) -> Scorer:
        """Minus the largest logit."""
        return lambda test: -test.logits.amax(1)

    card = Detector("largest", largest, paper, {"logits"}, {})
    if dated:
        WHOLE_CHECKS["card"](card)
    else:
        with pytest.raises(Broken, match=r"needs a year, such as 2026 or 2026b\."):
            WHOLE_CHECKS["card"](card)


@pytest.mark.parametrize("paper", ["2026", "2026b", "(2026)"])
def test_a_year_alone_is_no_paper(paper):
    def largest(train: View) -> Scorer:
        """Minus the largest logit."""
        return lambda test: -test.logits.amax(1)

    with pytest.raises(Broken, match="needs an author"):
        WHOLE_CHECKS["card"](Detector("largest", largest, paper, {"logits"}, {}))
