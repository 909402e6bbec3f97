"""Do metrics agree on the best detector: worlds with a known answer."""

import numpy as np
import pandas as pd
import pytest

from oodometer.errors import UserError
from oodometer.protocols.agreement.protocol import metric_agreement
from oodometer.results import Results


def tables(means, *, seed=0, runs=6):
    """One table per metric: metric -> detector -> mean; fpr95 is better if lower."""
    rng = np.random.default_rng(seed)
    return [
        Results(
            pd.DataFrame(
                {"detector": d, "ood": ood, "seed": run, "value": mean + rng.normal(0, 0.01)}
                for d, mean in own.items() for ood in ("x", "y") for run in range(runs)
            ),
            ("seed",), metric, metric != "fpr95",
        )
        for metric, own in means.items()
    ]  # fmt: skip


def test_the_same_first_by_both_holds_also_where_lower_is_better():
    strength = dict(zip("abcdef", (0.1, 0.4, 0.2, 0.05, 0.3, 0.25), strict=True))
    means = {
        "auroc": {d: 0.5 + s for d, s in strength.items()},
        "fpr95": {d: 0.5 - s for d, s in strength.items()},
    }
    claim, orders = metric_agreement(tables(means)).claims
    assert claim.verdict == "holds" and "both rank b first." in claim.text
    assert claim.evidence.endswith("the leads are significant")
    assert orders.verdict == "holds" and orders.text.endswith("of this table in the same way.")
    assert "Kendall's tau 1.00" in orders.evidence


def test_different_firsts_flip():
    means = {"auroc": {"a": 0.9, "b": 0.7, "c": 0.6}, "aupr_out": {"a": 0.5, "b": 0.8, "c": 0.4}}
    claim, _ = metric_agreement(tables(means)).claims
    assert claim.verdict == "flips" and "ranks a first" in claim.text
    assert claim.evidence.endswith("the leads are significant")


def test_leads_of_equal_detectors_may_be_chance():
    means = {m: dict.fromkeys("abcde", 0.8) for m in ("auroc", "aupr_out")}
    found = [metric_agreement(tables(means, seed=seed)).claims[0] for seed in range(40)]
    assert sum(claim.verdict != "undecided" for claim in found) <= 4
    assert sum("not significant" in claim.text for claim in found) >= 38


def test_metrics_that_share_their_luck_do_not_make_a_winner():
    """Two metrics of the same runs agree on the order, whoever is first by chance."""
    held = 0
    for seed in range(15):
        (table,) = tables({"auroc": dict.fromkeys("abcdefgh", 0.8)}, seed=seed)
        lower = Results(
            table.frame.assign(value=1 - table.frame["value"]), ("seed",), "fpr95", False
        )
        claim, orders = metric_agreement([table, lower]).claims
        assert "both rank" in claim.text and "Kendall's tau 1.00" in orders.evidence
        held += claim.verdict != "undecided"
    assert held <= 3  # 5 %; each of them held before


def test_one_metric_is_refused():
    with pytest.raises(UserError, match="at least two metrics"):
        metric_agreement(tables({"auroc": {"a": 0.5, "b": 0.6}}))


def test_nobody_is_first_by_a_metric_that_tells_nobody_apart():
    auroc, flat = tables(
        {"auroc": {"a": 0.9, "b": 0.7, "c": 0.6}, "fpr95": dict.fromkeys("abc", 0)}
    )
    flat = Results(flat.frame.assign(value=0.3), ("seed",), "fpr95", False)
    (claim,) = metric_agreement([auroc, flat]).claims
    assert claim.text == "By FPR@95TPR all detectors of this table are equal."
    assert claim.verdict == "undecided"
