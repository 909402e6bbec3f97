"""Tables as packages publish them: what was once read as something else."""

import pytest

from oodometer.errors import UserError
from oodometer.tables import read_results
from oodometer.tables.pages.spanned import with_spans


def read(tmp_path, text, columns="", name="t.csv"):
    path = tmp_path / name
    path.write_text(text)
    return read_results(path, columns)


@pytest.mark.parametrize(
    "titles",
    [
        "mAP (val2017),mAP (test-dev2017),mAP (TF official val2017)",
        "mAP pose 50-95(e2e),mAP pose 50(e2e)",
        "Prompt-level-strict-accuracy,Inst-level-strict-accuracy,Prompt-level-loose-accuracy,"
        "Inst-level-loose-accuracy",
    ],
)
def test_forms_with_years_hyphens_or_overlaps_are_no_data_sets(tmp_path, titles):
    count = titles.count(",") + 1
    lines = [f"net{n}" + "".join(f",{40 + 3 * n + c}.5" for c in range(count)) for n in range(6)]
    with pytest.raises(UserError, match="say which decides"):
        read(tmp_path, "\n".join([f"Model,{titles}", *lines]))


def test_numbered_levels_are_no_forms(tmp_path):
    text = "Model,F1 epoch 10,F1 epoch 20\nA,.61,.72\nB,.52,.63\nC,.55,.67\n"
    assert read(tmp_path, text).results[0].detectors == ("A", "B", "C")


def test_settings_far_below_results_and_codes_of_sets(tmp_path):
    lines = ["k1,b,method,AG,CF,DB,SD,MS"]
    lines += [
        f"{(0.9, 1.2, 1.5)[n // 4]},{(0.4, 0.75)[n > 3]},m{n},{98.1 + n / 10},{63.2 + n / 7:.1f},"
        f"{67.3 - n / 3:.1f},{56.1 + n / 9:.1f},{85.2 - n / 8:.1f}"
        for n in range(12)
    ]
    (results,) = read(tmp_path, "\n".join(lines), "recall=*, detector=method").results
    assert {*results.ids, *results.ood} - {""} == {"AG", "CF", "DB", "SD", "MS"}


def test_what_models_were_trained_on_is_no_data_set(tmp_path):
    text = (
        "Model,Trained on,Macro F1,Accuracy\nSVM,A,.60,.61\nSVM tuned,B,.87,.86\n"
        "BERT,B,.86,.87\nBERT large,A and B,.89,.90\n"
    )
    (results, *_) = read(tmp_path, text).results
    assert len(results.detectors) == 4
    assert len(results.ids) == 1


def test_macro_f1_of_tests_is_no_mean(tmp_path):
    text = "Model,Validation macro-F1,Test macro-F1\nSVM,.60,.61\nNet,.87,.86\nBERT,.86,.87\n"
    with pytest.raises(UserError, match="Validation macro-F1"):
        read(tmp_path, text)


def test_an_error_beyond_100_is_no_share_and_a_reduction_no_error(tmp_path):
    text = (
        "Dataset,Arm,Mean error,Error reduction\nblood,base,0.26,0.00%\nblood,full,0.25,-1.63%\n"
        "diamonds,base,551.8,0.00%\ndiamonds,full,549.1,0.5%\n"
    )
    reading = read(tmp_path, text)
    assert [(part.metric, part.higher_is_better) for part in reading.results] == [
        ("other error", False)
    ]


def test_rows_of_models_with_their_metric_are_no_titles(tmp_path):
    text = (
        "| Models | FP32 | INT8 |\n|---|---|---|\n| MobileNet v2 (top1) | 71.72% | 71.08% |\n"
        "| ResNet 50 (top1) | 76.05% | 75.45% |\n| DeepLab v3 (mIOU) | 72.65% | 71.91% |\n"
    )
    with pytest.raises(UserError, match="FP32"):
        read(tmp_path, text, name="t.md")


GRID = """
+---------+---------------------+---------------------+
|         | XGBoost             | NGBoost             |
+---------+---------+-----------+---------+-----------+
| Dataset | RMSE    | Time      | RMSE    | Time      |
+=========+=========+===========+=========+===========+
| Boston  | 3.41    | 0.067 (s) | 3.25    | 2.68 (s)  |
+---------+---------+-----------+---------+-----------+
| Energy  | 0.45    | 0.15 (s)  | 0.49    | 5.33 (s)  |
+---------+---------+-----------+---------+-----------+
"""


def test_cells_of_grid_tables_span_columns(tmp_path):
    (results,) = read(tmp_path, f"Results\n=======\n{GRID}\nMore.\n", name="t.rst").results
    assert results.detectors == ("XGBoost", "NGBoost")
    assert set(results.ids) == {"Boston", "Energy"}


def test_grid_tables_without_spans_stay():
    plain = "+---+---+\n| a | b |\n+===+===+\n| 1 | 2 |\n+---+---+"
    assert with_spans(plain) == plain
