"""Every built-in detector keeps the contract, at every setting of its grid."""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import pytest
import torch

import oodometer.builtin  # noqa: F401 - registers them
from oodometer.errors import UserError
from oodometer.registry import DETECTORS, Detector
from oodometer.testing import (
    CHECKS,
    EXCEPTIONS,
    WHOLE_CHECKS,
    CheckResult,
    assert_detector,
    check_detector,
    toy_outputs,
    toys,
)

BUILT_IN = sorted(
    name for name, card in DETECTORS.items() if card.build.__module__.startswith("oodometer.")
)


def card_of(name: str) -> Detector:
    """The card; of a grid too large to check at every setting, the ends and the default."""
    card = DETECTORS[name]
    if not card.only_by_name and math.prod(map(len, card.grid.values())) <= 60:
        return card
    ends = {
        setting: tuple(sorted({values[0], card.defaults[setting], values[-1]}))
        for setting, values in card.grid.items()
    }
    return replace(card, grid=ends)


@functools.cache
def results(name: str) -> list[CheckResult]:
    return check_detector(card_of(name))


@pytest.mark.parametrize("check", [*WHOLE_CHECKS, *CHECKS])
@pytest.mark.parametrize("name", BUILT_IN)
def test_detector_keeps_the_contract(name: str, check: str) -> None:
    found = [result for result in results(name) if result.check == check]
    expected = 1 if check in WHOLE_CHECKS else len(list(card_of(name).settings()))
    assert len(found) == expected
    assert not [str(result) for result in found if result.outcome == "failed"]


@pytest.mark.parametrize("exception", EXCEPTIONS, ids="-".join)
def test_no_exception_is_stale(exception: tuple[str, str]) -> None:
    name, check = exception
    assert "excepted" in {result.outcome for result in results(name) if result.check == check}
    assert EXCEPTIONS[exception][0].islower() and not EXCEPTIONS[exception].endswith(".")


def test_all_names_are_there() -> None:
    assert set(BUILT_IN) >= {
        "max_softmax",
        "temperature_scaling",
        "max_logit",
        "energy",
        "entropy",
        "margin",
        "generalized_entropy",
        "kl_matching",
        "openmax",
        "standardized_max_logit",
        "weighted_energy",
        "lts",
        "mahalanobis",
        "relative_mahalanobis",
        "knn",
        "local_outlier_factor",
        "vim",
        "residual",
        "nci",
        "fdbd",
        "nnguide",
        "she",
        "gaussian_mixture",
        "one_class_svm",
        "isolation_forest",
        "cosine_to_class_mean",
        "cosine_to_class_weight",
        "pnml",
        "react",
        "dice",
        "ash",
        "scale",
        "vra",
        "line",
        "gradnorm",
    }


@pytest.mark.parametrize("name", BUILT_IN)
def test_card_tells_the_formula(name: str) -> None:
    assert DETECTORS[name].formula, "the docstring needs the formula after its first line"
    assert DETECTORS[name].summary.endswith(".")


def test_one_setting_can_be_checked_alone() -> None:
    found = check_detector("energy", {"temperature": 3.0})
    assert [r.check for r in found] == [*WHOLE_CHECKS, *CHECKS]
    assert {tuple(r.settings.items()) for r in found} == {(), (("temperature", 3.0),)}
    with pytest.raises(UserError, match="Unknown setting of 'energy' 'heat'"):
        check_detector("energy", {"heat": 3.0})


def test_the_contract_leaves_the_global_random_state_alone() -> None:
    before = torch.get_rng_state()
    check_detector("max_logit")
    assert torch.equal(before, torch.get_rng_state())


def test_assert_detector_accepts_a_good_one_and_refuses_an_unknown_one() -> None:
    assert_detector("max_logit")
    with pytest.raises(UserError, match="Did you mean 'energy'"):
        assert_detector("enrgy")


def test_toy_outputs_are_always_the_same() -> None:
    toys._toy_outputs.cache_clear()
    first = toy_outputs(10, 3)
    torch.manual_seed(5)
    toys._toy_outputs.cache_clear()
    second = toy_outputs(10, 3)
    assert first is not second
    assert torch.equal(first.features, second.features)
