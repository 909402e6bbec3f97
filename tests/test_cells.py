"""Cells: the one arrangement of a results table, with its gaps."""
# ruff: noqa: PD011 (the values of cells, not of a data frame)

import numpy as np
import pandas as pd
import pytest

from oodometer.errors import UserError
from oodometer.protocols.common.cells import (
    NOT_GIVEN,
    Pair,
    cells_of,
    mean_of_known,
    require_metric_values,
)
from oodometer.results import Results


def table(**columns):
    lines = [
        {"detector": d, "ood": o, "seed": s, "epoch": e, "value": v, **extra}
        for d, o, s, e, v, extra in columns.pop("lines")
    ]
    return Results(pd.DataFrame(lines).assign(**columns), ("seed", "epoch"))


LINES = [
    ("a", "near", 0, 1, 0.5, {}),
    ("a", "near", 0, 2, 0.7, {}),
    ("a", "near", 1, 1, 0.9, {}),
    ("b", "near", 0, 1, 0.4, {}),
    ("b", "near", 1, 1, 0.8, {}),
    ("a", "far", 0, 1, 0.6, {}),
]


def test_gaps_stay_gaps():
    cells = cells_of(table(lines=LINES))
    assert cells.detectors == ("a", "b")
    assert cells.pairs == (Pair("", "near"), Pair("", "far"))
    assert list(cells.runs.values())[1] == {"seed": "0", "epoch": "2"}
    assert np.isnan(cells.values[1]).tolist() == [False, True, False, True]
    assert cells.complete().values.tolist() == [[0.5, 0.9], [0.4, 0.8]]
    assert cells.complete().pairs == (Pair("", "near"),)


def test_re_evaluations_become_one_cell_unless_a_detector_lacks_one():
    cells = cells_of(table(lines=LINES))
    whole = cells.over("epoch")
    assert [whole.pairs[pair].ood for pair in whole.pair] == ["near", "near", "far"]
    assert whole.values[0] == pytest.approx([0.6, 0.9, 0.6])
    # b was evaluated at one of two epochs of seed 0: its mean would be over another thing.
    assert np.isnan(whole.values[1]).tolist() == [True, False, True]
    assert whole.values[1, 1] == 0.8


def test_pairs_become_one_by_name():
    lines = [(d, o, 0, 1, v, {}) for d, o, v in (("a", "near", 0.5), ("a", "far", 0.7))]
    cells = cells_of(table(lines=lines))
    mean = cells.over("epoch", pairs=[Pair("", "mean")] * 2)
    assert mean.pairs == (Pair("", "mean"),) and mean.values.tolist() == [[0.6]]


def test_stated_spreads_accuracy_and_levels_that_are_not_given():
    lines = [("a", "near", s, 1, 0.5, {"spread": p}) for s, p in ((0, 0.1), (None, np.nan))]
    cells = cells_of(table(lines=lines, accuracy=[0.9, np.nan]))
    assert cells.spreads.tolist() == [[0.1, 0.0]]
    assert cells.accuracy[0] == 0.9 and np.isnan(cells.accuracy[1])
    assert [own["seed"] for own in cells.runs.values()] == ["0.0", NOT_GIVEN]
    assert cells.scaled(100.0).spreads.tolist() == [[10.0, 0.0]]


def test_the_mean_of_equal_values_is_that_value():
    values = np.array([[0.1, np.nan, np.nan], [0.1, np.nan, 2.0], [0.1, np.nan, 4.0]])
    found = mean_of_known(values)
    assert found[0] == 0.1 != values[:, 0].sum() / 3  # which rounding would have moved
    assert np.isnan(found[1]) and found[2] == 3.0


def test_what_no_metric_can_be_is_refused():
    with pytest.raises(UserError, match="is 2e\\+06; shares up to 1 or percentages"):
        require_metric_values(table(lines=[("a", "near", 0, 1, 2e6, {})]))
