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


def test_titles_that_hold_two_things_are_parted_on_request(tmp_path):
    """The wide layout of conditions within ID sets gives the numbers of the long one."""
    titles = ["C10 clean", "C10 Agg N", "Agg SU", "Foo clean", "Foo N", "Baz clean", "N", "SU"]
    values = {m: [0.9 - 0.01 * (i + j) for j in range(8)] for i, m in enumerate(("MSP", "KNN"))}
    lines = [f"{m}," + ",".join(f"{v:.3f}" for v in own) for m, own in values.items()]
    path = tmp_path / "wide.csv"
    path.write_text("\n".join([",".join(["method", *titles]), *lines]))
    with pytest.raises(UserError, match=r"id\+condition=\*") as asked:
        read_results(path)
    assert "ood+condition=*" in str(asked.value)
    found = read_results(path, "id+condition=*, auroc=*").results[0]
    assert found.frame.groupby("id", sort=False)["condition"].unique().map(list).to_dict() == {
        "C10": ["clean", "Agg N", "Agg SU"], "Foo": ["clean", "N"], "Baz": ["clean", "N", "SU"],
    }  # fmt: skip
    assert [factor.kind for factor in found.factors] == ["condition"]
    cell = found.frame.query("detector == 'KNN' and id == 'Baz' and condition == 'SU'")
    assert cell["value"].item() == pytest.approx(values["KNN"][-1])


@pytest.mark.parametrize("said", ["id+conditio=*", "id+id=*", "id+condition=a"])
def test_titles_are_parted_into_two_known_roles(said, tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text("method,C10 clean,Foo clean\nMSP,0.9,0.8\nKNN,0.8,0.7")
    with pytest.raises(UserError, match=r"two roles of detector, id, ood.*such as id\+condition"):
        read_results(path, said)


def test_titles_of_one_name_are_not_parted(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text("method,SVHN,LSUN\nMSP,0.9,0.8\nKNN,0.8,0.7")
    with pytest.raises(UserError, match=r"'SVHN' is one name, not two"):
        read_results(path, "id+condition=*")
