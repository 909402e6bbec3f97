"""A results table: what it refuses, and what scores reduce to."""

import numpy as np
import pandas as pd
import pytest

from oodometer.errors import UserError
from oodometer.factors import Factor
from oodometer.results import Results, results
from oodometer.scores import ScoreRow, ScoreTable


def frame(**columns):
    return pd.DataFrame(
        {"detector": ["knn", "energy"], "ood": ["svhn"] * 2, "value": [0.9, 0.8]} | columns
    )


def test_order_of_first_lines():
    table = Results(frame(seed=[1, 2]), ("seed",))
    assert table.detectors == ("knn", "energy")
    assert table.ood == ("svhn",)
    assert table.keys == ("detector", "ood")


@pytest.mark.parametrize(
    ("columns", "factors", "words"),
    [
        ({"value": [0.9, float("nan")]}, (), "finite"),
        ({"value": [0.9, float("inf")]}, (), "finite"),
        ({"detector": ["knn", "knn"]}, (), "1 lines .* first detector knn, ood svhn"),
        ({}, ("sede",), "unknown column of a results table 'sede'|Unknown column"),
    ],
)
def test_refusals(columns, factors, words):
    with pytest.raises(UserError, match=words):
        Results(frame(**columns), factors)


def test_scores_reduce_to_one_number_per_cell():
    rows = [
        ScoreRow(run, "knn", "", name, np.array(scores))
        for run, name, scores in [
            ("a", "id", [0.0, 1.0]), ("a", "far", [2.0, 3.0]),
            ("b", "id", [0.0, 2.0]), ("b", "far", [1.0, 3.0]),
        ]
    ]  # fmt: skip
    table = ScoreTable("id", tuple(rows), {"a": {"seed": 0}, "b": {"seed": 1}})
    found = results(table)
    assert found.factors == (Factor("seed", "repeat"),)
    assert found.frame["value"].tolist() == [1.0, 0.75]  # 4 of 4 and 3 of 4 pairs in order
    assert results(table, "fpr95").higher_is_better is False
    with pytest.raises(UserError, match="auroc"):
        results(table, "aurok")
