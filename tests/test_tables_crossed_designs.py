"""The same designs in every layout, under known and unknown names: read right, or asked about."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from oodometer.errors import UserError
from oodometer.tables import Reading, read_results

DETECTORS = (["MSP", "KNN", "ODIN"], ["Foo", "Barr", "Quux"])
METRICS = ("auroc", "accuracy")
SETS = (["SVHN", "LSUN", "iSUN"], ["alpha1", "betaz", "gamm"])
FACTORS = {
    "seed": ("repeat", ["0", "1", "2"]),
    "fold": ("repeat", ["1", "2", "3"]),
    "epoch": ("re_evaluation", ["10", "20"]),
    "optimizer": ("condition", ["sgd", "adam"]),
    "zork": ("condition", ["u", "v"]),
    "lr": ("condition", ["0.1", "0.01"]),
    "backbone": ("condition", ["resnet18", "vit"]),
}


def layouts(detectors, sets, factor, levels, title, metric):
    """Yield long and wide tables of one design, with the title of the detectors or the sets."""
    rng = np.random.default_rng(0)
    rows = [(*names, f"{rng.uniform(0.6, 0.95):.4f}") for names in product(detectors, sets, levels)]
    lines = pd.DataFrame(rows, columns=[title, "dataset", factor, metric])
    yield lines
    yield lines.rename(columns={"dataset": "thing"})
    for index, wide in ((title, "dataset"), ("dataset", title)):
        table = lines.pivot_table(
            index=[index, factor], columns=wide, values=metric, aggfunc="first"
        ).reset_index()
        table.columns = [c if c in (index, factor) else f"{c} {metric}" for c in table.columns]
        yield table
        yield table.rename(columns={index: "column 1"})


def is_right(reading: Reading, detectors, sets, kind, levels, *, may_be_condition) -> bool:
    """Whether detectors, data sets and the factor are found, the last with its kind."""
    results = reading.results[0]
    frame = results.frame
    named = [set(frame[c]) for c in ("id", "ood") if c in frame.columns]
    found = [(factor.kind, set(frame[factor.name].astype(str))) for factor in results.factors]
    data = set(sets) in named or (may_be_condition and ("condition", set(sets)) in found)
    return set(results.detectors) == set(detectors) and data and (kind, set(levels)) in found


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("title", ["method", "zork1"])
def test_every_layout_is_read_right_or_asked_about(factor, title):
    kind, levels = FACTORS[factor]
    right = asked = 0
    for (detectors, metric), sets in product(zip(DETECTORS, METRICS, strict=True), SETS):
        for table in layouts(detectors, sets, factor, levels, title, metric):
            try:
                reading = read_results(table)
            except UserError as question:
                assert "--columns" in str(question)
                asked += 1
                continue
            unknown = "thing" in table.columns  # a title that does not say data sets
            assert is_right(reading, detectors, sets, kind, levels, may_be_condition=unknown), (
                table.head()
            )
            right += 1
    assert right > 2 * asked if title == "method" else right > 0
