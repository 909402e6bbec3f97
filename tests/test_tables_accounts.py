"""What stands on a page is read, named as left out, or asked about: nothing is lost on the way."""

import pytest
from page_reading import asked, read

from oodometer.errors import UserError

TEXT = """Table 1: AUROC on three outlier sets.
Method {0}SVHN {0}LSUN {0}iSUN
MSP    {0}91.2 {0}90.1 {0}89.0
KNN    {0}92.2 {0}91.1 {0}90.0
ViM    {0}93.2 {0}91.1 {0}90.0
"""


def detectors(reading):
    return list(reading.results[0].frame["detector"].unique())


@pytest.mark.parametrize("gap", ["", "   "])
def test_a_line_below_a_text_table_that_lacks_a_number_is_not_dropped(tmp_path, gap):
    text = TEXT.format(gap) + f"Ours   {gap}95.0 {gap}94.1\n"
    with pytest.raises(UserError, match=r"'Ours .*' has 2 numbers, the others have 3"):
        read(tmp_path, text, "t.txt")
    found = read(tmp_path, text.replace("94.1", f"94.1 {gap}-"), "t.txt")
    assert detectors(found) == ["MSP", "KNN", "ViM", "Ours"]


def test_tabs_say_which_number_is_missing(tmp_path):
    text = TEXT.format("\t").replace(" ", "") + "Ours\t95.0\t94.1\n"
    frame = read(tmp_path, "AUROC\n\n" + text, "t.txt").results[0].frame
    ours = frame[frame["detector"] == "Ours"]
    assert dict(zip(ours["ood"], ours["value"], strict=True)) == {"SVHN": 0.95, "LSUN": 0.941}


def test_a_text_table_goes_on_below_a_blank_line(tmp_path):
    text = TEXT.format("") + "\nOurs 95.0 94.1 92.0\nGEN 93.0 92.1 91.0\n"
    assert detectors(read(tmp_path, text, "t.txt")) == ["MSP", "KNN", "ViM", "Ours", "GEN"]


def test_a_line_that_lacks_a_number_is_no_header(tmp_path):
    lines = TEXT.format("").splitlines()
    text = "\n".join([*lines[:2], "Ours 95.0 94.1", *lines[2:]])
    with pytest.raises(UserError):
        read(tmp_path, text, "t.txt")


def test_negative_numbers_beside_a_column_of_gains_are_no_gains(tmp_path):
    page = """| Task | Metric | Encoder | Baseline | Gain |
|---|---|---|---|---|
| Regression | R2 | 0.67 | -1.78 | +137% |
| Bandit | R2 | -0.04 | -2.30 | +98% |
| Control | R2 | 0.99 | 0.79 | +26% |
"""
    frame = read(tmp_path, page).results[0].frame
    assert list(frame["id"].unique()) == ["Regression", "Bandit", "Control"]


def test_columns_of_one_metric_in_two_units_are_not_averaged(tmp_path):
    page = """| Method | Test Pos. RMSE [m] | Stress Pos. RMSE [m] | Test Vel. RMSE [m/s] |
|---|---|---|---|
| EKF | 6170.2 | 6811.3 | 7.09 |
| UKF | 6191.4 | 7173.2 | 7.11 |
| AUKF | 6167.4 | 6800.5 | 7.08 |
"""
    said = asked(
        tmp_path,
        page,
        "ignore=Test Vel. RMSE [m/s]",
        "ignore=Test Pos. RMSE [m], ignore=Stress Pos. RMSE [m]",
    )
    assert "different units" in said


def test_lines_of_metrics_that_nobody_knows_are_no_conditions(tmp_path):
    page = """| Model | Metric | Site A | Site B |
|---|---|---|---|
| SARIMAX | rmseday | 447.9 | 450.4 |
| SARIMAX | skillday | -1.205 | -0.093 |
| LSTM | rmseday | 238.6 | 238.5 |
| LSTM | skillday | -0.167 | 0.420 |
"""
    with pytest.raises(UserError, match="rmseday, skillday"):
        read(tmp_path, page, columns="lower=*")


def test_numbers_with_a_spread_are_no_levels_of_a_condition(tmp_path):
    ranks = ("1 ± 0", "24 ± 1", "39 ± 4", "24 ± 1", "1 ± 0", "39 ± 4")
    lines = [
        f"| net {n} | {view} | 0.{n}{place} | {rank if view == 'clean' else ''} |"
        for n, rank in enumerate(ranks, start=3)
        for place, view in enumerate(("clean", "color", "affine"))
    ]
    page = "| Model | view | AUROC | Spot |\n|---|---|---|---|\n" + "\n".join(lines)
    found = read(tmp_path, page, columns="condition=view").results[0]
    assert found.factor_names == ("view",)


def test_a_domain_called_p_is_no_p_value(tmp_path):
    page = """Accuracy on PACS

| Methods | avg | A | C | P | S |
|---|---|---|---|---|---|
| ERM | 86.4 | 88.5 | 78.4 | 97.2 | 81.4 |
| IBN | 87.8 | 88.2 | 84.5 | 97.1 | 81.4 |
| IRM | 86.9 | 88.0 | 82.5 | 98.0 | 79.0 |
"""
    frame = read(tmp_path, page, columns="accuracy=*").results[0].frame
    assert set(frame["id"]) == {"A", "C", "P", "S"}


def test_a_setting_of_which_most_have_one_each_leaves_nobody_out_unasked(tmp_path):
    page = """| System | Beams | Recall |
|---|---|---|
| LETTER | 20 | 0.431 |
| Released | 20 | 0.413 |
| Generator | 20 | 0.420 |
| Generator | 50 | 0.429 |
| End-to-end | 50 | 0.356 |
"""
    asked(tmp_path, page, "detector=System+Beams", "condition=Beams")


def test_harmonic_means_are_summaries(tmp_path):
    page = """| Method | A Old | A New | A Harm. |
|---|---|---|---|
| Plain | 0.7151 | 0.7748 | 0.7438 |
| Anchor | 0.7977 | 0.7773 | 0.7874 |
| Replay | 0.7948 | 0.7755 | 0.7850 |
| Ours | 0.8195 | 0.7906 | 0.8048 |
"""
    found = read(tmp_path, page, columns="id=*, accuracy=*")
    assert set(found.results[0].frame["id"]) == {"A Old", "A New"}
    assert any("harmonic means" in note for note in found.notes)


def test_another_metric_of_the_same_sets_is_not_taken_for_more_of_the_known_one(tmp_path):
    page = """| Method | SciQ (Easy) Acc | SciQ (Easy) Cov | Fact (Hard) Acc | Fact (Hard) Cov |
|---|---|---|---|---|
| Answer | 0.982 | 0.991 | 0.672 | 0.998 |
| Abstain | 0.984 | 0.980 | 0.779 | 0.588 |
| LAC | 0.991 | 0.918 | 0.706 | 0.872 |
"""
    (main,) = read(tmp_path, page).results
    assert main.metric == "accuracy" and main.frame["id"].nunique() == 2


def test_arrows_of_both_directions_are_those_of_different_metrics(tmp_path):
    page = """| Method | Lex ↑ | PPL ↓ | Flu ↑ |
|---|---|---|---|
| base | 0.117 | 20.21 | 1.56 |
| cot | 0.872 | 18.16 | 1.88 |
| final | 0.569 | 30.34 | 1.86 |
"""
    said = asked(tmp_path, page, "perplexity=PPL ↓", "higher=Lex ↑", "higher=Flu ↑")
    assert "too" not in said.split()


def test_first_titles_that_name_data_sets_join_tables(tmp_path):
    page = """| [Movielens 100k](https://x.org/100k) | RMSE |
|---|---|
| SVD | 0.934 |
| NMF | 0.963 |

| [Movielens 1M](https://x.org/1m) | RMSE |
|---|---|
| SVD | 0.873 |
| NMF | 0.916 |
"""
    frame = read(tmp_path, page).results[0].frame
    assert list(frame["id"].unique()) == ["Movielens 100k", "Movielens 1M"]


def test_fractions_below_a_title_in_percent_are_told_by_their_size(tmp_path):
    page = "| model | accuracy (%) |\n|---|---|\n| a | 0.3571 |\n| b | 0.8738 |\n"
    assert list(read(tmp_path, page).results[0].frame["value"]) == [0.3571, 0.8738]
    with pytest.raises(UserError, match="percent or fractions"):
        read(tmp_path, page.replace("0.3571", "0.04").replace("0.8738", "0.09"))


def test_headings_between_lines_are_no_titles_of_turned_tables(tmp_path):
    page = r"""\begin{tabular}{lcc}
Algorithm & Grid & Transfer \\ \midrule
\multicolumn{3}{c}{Top 5: success} \\ \midrule
gaussian & 0.350 & 0.359 \\
adwin & 0.079 & 0.080 \\ \midrule
\multicolumn{3}{c}{Bottom 5: failure} \\ \midrule
focus & 0.118 & 0.028 \\
\end{tabular}"""
    assert "adwin" in detectors(read(tmp_path, page, "t.tex", "F1=Grid"))


def test_macros_without_a_definition_keep_their_names(tmp_path):
    page = r"""\begin{tabular}{lcc}
Model & Acc. & $\Delta$ to \base \\
Base & 44.4 & \\
\sokrates{} (iter 1) & 95.9 & $+51.5$ \\
\bf \sokrates{} (iter 2)$^\dagger$ & \best 97.6 & \\
\end{tabular}"""
    assert detectors(read(tmp_path, page, "t.tex")) == [
        "Base", "sokrates (iter 1)", "sokrates (iter 2)",
    ]  # fmt: skip


def test_a_number_with_a_sign_in_a_formula_is_no_gain(tmp_path):
    page = r"""\begin{tabular}{lc}
Model & R2 \\
A & $-0.167$ \\
B & $+0.420$ \\
C & $0.300$ \\
\end{tabular}"""
    assert list(read(tmp_path, page, "t.tex").results[0].frame["value"]) == [-0.167, 0.42, 0.3]


@pytest.mark.parametrize("fence", ["", "```\n"])
def test_one_number_below_each_name_is_a_table(tmp_path, fence):
    numbers = {"alpha": "71.2 ± 0.2", "beta": "74.2 ± 0.3", "gamma": "73.0 ± 0.1"}
    log = "\n\n".join(f"## {n}\n{fence}Final Test: {v}\n{fence}" for n, v in numbers.items())
    found = read(tmp_path, log, columns="accuracy=*")
    assert detectors(found) == list(numbers)
    with pytest.raises(UserError):
        read(tmp_path, log.replace("## beta", "## alpha"), columns="accuracy=*")
