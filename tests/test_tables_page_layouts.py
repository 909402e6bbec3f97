"""Layouts of tables on pages: lines of headers, commands of papers, cells copied one by one."""

import pytest
from page_reading import asked, read

from oodometer.errors import UserError


def means(reading):
    values = reading.results[0].frame.groupby("detector")["value"].mean()
    return {str(name): round(float(value), 4) for name, value in values.items()}


def test_a_comma_in_a_title_begins_no_role(tmp_path):
    text = "|Model|Standard Accuracy|Robust Accuracy (%), k = 8|\n|-|-|-|\n|A|90.1|40|\n|B|91|45|\n"
    asked(tmp_path, text, "higher=Standard Accuracy", "higher=Robust Accuracy (%), k = 8")
    with pytest.raises(UserError, match="Unknown role of a column 'detectr'"):
        read(tmp_path, text, columns="accuracy=Standard Accuracy, detectr=Model")


TABULAR = r"""\begin{{table}}\begin{{tabular}}{{llccc}}
{}\end{{tabular}}\caption{{Cells report AUROC / FPR@95.}}\end{{table}}"""


def test_commands_with_two_numbers_are_pairs(tmp_path):
    rows = r"Method & SVHN & LSUN \\ MSP & \cell{\metric{0.81}{0.62}} & \cell{\metric{0.83}{0.6}}"
    rows += r" \\ KNN & \cell{\metric{0.91}{0.42}} & \cell{\metric{0.93}{0.5}} \\"
    found = read(tmp_path, TABULAR.format(rows), "page.tex")
    assert means(found) == {"MSP": 0.82, "KNN": 0.92} and len(found.results) == 2
    spread = rows.replace(r"\metric", r"\meanstd").replace("{0.6", "{0.06").replace("{0.4", "{0.04")
    text = TABULAR.format(spread).replace("AUROC / FPR@95", "AUROC")
    assert read(tmp_path, text, "page.tex").results[0].frame["spread"].notna().all()


def test_a_title_above_all_columns_and_sets_marked_as_id(tmp_path):
    rows = r"""\multicolumn{6}{c}{\textbf{Forest ROCAUC $\uparrow$ / FPR@95 $\downarrow$}} \\
& & \multicolumn{2}{c}{CIFAR-10 (ID)} & \multicolumn{2}{c}{CIFAR-100 (ID)} \\
Trees & OOD score & MNIST & SVHN & MNIST & SVHN \\
20 & MSP & .81/.5 & .82/.5 & .71/.6 & .72/.6 \\ & Energy & .83/.5 & .84/.5 & .73/.6 & .74/.6 \\
50 & MSP & .85/.5 & .86/.5 & .75/.6 & .76/.6 \\ & Energy & .87/.5 & .88/.5 & .77/.6 & .78/.6 \\
"""
    found = read(tmp_path, TABULAR.format(rows).partition(r"\caption")[0], "page.tex").results[0]
    assert set(found.frame["id"]) == {"CIFAR-10", "CIFAR-100"} and found.ood == ("MNIST", "SVHN")
    assert found.metric == "auroc" and found.factor_names == ("Trees",)


def test_arrows_in_a_line_of_their_own_and_means_that_cover_two_lines(tmp_path):
    rows = r"""\multirow{4}{*}{Model} & \multirow{4}{*}{Methods} & \multicolumn{4}{c}{OOD Datasets}
& \multicolumn{2}{c}{\multirow{2}{*}{Average}} \\
& & \multicolumn{2}{c}{SUN} & \multicolumn{2}{c}{Places} & & \\
& & FPR95 & AUROC & FPR95 & AUROC & FPR95 & AUROC \\
& & $\downarrow$ & $\uparrow$ & $\downarrow$ & $\uparrow$ & $\downarrow$ & $\uparrow$ \\
\multirow{2}{*}{ResNet} & MSP & 50 & 81 & 60 & 71 & 55 & 76 \\
& ODIN & 40 & 83 & 50 & 73 & 45 & 78 \\
\multirow{2}{*}{ViT} & MSP & 51 & 82 & 61 & 72 & 56 & 77 \\
& ODIN & 41 & 84 & 51 & 74 & 46 & 79 \\
"""
    found = read(tmp_path, TABULAR.format(rows), "page.tex").results[0]
    assert found.ood == ("SUN", "Places") and found.factor_names == ("Model",)
    assert found.detectors == ("MSP", "ODIN")


def test_wide_signs_shift_no_column_of_a_simple_table(tmp_path):
    text = """========= ====== ===== =====
Model     Listed AUC   F1
========= ====== ===== =====
`Patch`_  ✅     91.1  50.2
`Padim`_  ❌     92.2  60.3
`Other`_  日本   93.3  70.4
========= ====== ===== =====
"""
    assert means(read(tmp_path, text, "page.rst")) == {
        "Patch": 0.911, "Padim": 0.922, "Other": 0.933
    }  # fmt: skip


def test_segmentation_and_classification_are_two_metrics(tmp_path):
    text = "|Model|Segmentation AUC|Classification AUC|\n|-|-|-|\n|A|98.1|99.1|\n|B|97.2|99.3|\n"
    asked(tmp_path, text, "higher=Segmentation AUC", "higher=Classification AUC")


def test_first_cells_of_a_header_may_name_its_lines(tmp_path):
    text = """Metric\tAUC\t\t\t\tMinRank\t
OOD\tSVHN\t\tCelebA\t\tSVHN\t
Variation\tClean\tColor\tClean\tColor\tClean\tColor
Net A\t.91\t.82\t.93\t.84\t8\t1
Net B\t.95\t.86\t.97\t.88\t9\t2
"""
    found = read(tmp_path, text, "page.txt").results[0]
    assert found.ood == ("SVHN", "CelebA") and found.factor_names == ("Variation",)
    assert found.detectors == ("Net A", "Net B") and len(found.frame) == 8
    tasks = text.replace("Variation\tClean\tColor\tClean\tColor", "Task\tread\tname\tadd\tcount")
    assert read(tmp_path, tasks, "page.txt").results[0].detectors == ("Net A", "Net B")


def test_a_word_of_some_titles_is_no_form_of_the_metric(tmp_path):
    text = "|Model|hate classification accuracy|hate classification F1|reading accuracy|"
    text += "counting accuracy|\n|-|-|-|-|-|\n|A|0.8|0.5|0.7|0.6|\n|B|0.9|0.6|0.8|0.9|\n"
    found = read(tmp_path, text)
    assert len(found.results[0].frame) == 6
