"""Titles of columns that are all data sets of training: ID sets, not outliers."""

import pytest

from oodometer.tables import read_results

SETS = ("CIFAR-10", "CIFAR-100", "ImageNet-200")


def table(*sets):
    lines = [["Method", *sets], ["---"] * (1 + len(sets))]
    lines += [[d, *(f"{v + n}.5" for n in range(len(sets)))] for d, v in (("MSP", 80), ("KNN", 85))]
    return "AUROC of detectors.\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


@pytest.mark.parametrize(
    ("sets", "ids"), [(SETS, list(SETS)), (("CIFAR-100", "SVHN", "Textures"), [])]
)
def test_sets_of_training_above_columns_are_id_sets(tmp_path, sets, ids):
    path = tmp_path / "page.md"
    path.write_text(table(*sets))
    (found,) = read_results(path).results
    named = sorted(found.frame["id"].unique()) if "id" in found.frame else []
    assert [name for name in named if name] == sorted(ids)
    assert found.metric == "auroc" and len(found.frame) == 2 * len(sets)
