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


LOG = "{name}\n  [Super] Seen   : {a}% ± 3.2%\n  [Sub] AUROC    : 0.{b} ± 0.02\n\n"


def test_logs_beside_a_table_are_a_table(tmp_path):
    table = "|weight|Sub AUROC|\n|-|-|\n|0.1|0.86|\n|0|0.89|\n\n"
    logs = LOG.format(name="### MSP", a=91, b=85) + LOG.format(name="### Energy", a=92, b=88)
    with pytest.raises(UserError, match=r"#2: MSP \(2 × 3\)"):
        read(tmp_path, table + logs)
    assert means(read(tmp_path, table + logs, "page.md#2")) == {"MSP": 0.85, "Energy": 0.88}
    history = "epoch: 1\nval auroc: 0.8\n\nepoch: 2\nval auroc: 0.9\n"
    known = table.replace("weight", "method").replace("|0.1|", "|MSP|").replace("|0|", "|KNN|")
    assert means(read(tmp_path, known + history)) == {"MSP": 0.86, "KNN": 0.89}


def test_lists_below_headings_are_lines(tmp_path):
    item = "## {}\n- AUROC (tol=5): **0.{}** (P=1.0, R=0.1)\n- Threshold: `0.58`\n\n"
    text = item.format("IForest", 91) + item.format("LSTM-AE", 93)
    assert means(read(tmp_path, text)) == {"IForest": 0.91, "LSTM-AE": 0.93}


def test_blocks_of_two_methods_name_what_is_detected(tmp_path):
    block = "{} Detection\n\t\t{}\nFPR95:\t\t{}.3\nAUROC:\t\t9{}.4\n\n\n"
    text = ""
    for place, method in enumerate(("net_plain", "net_tuned")):
        text += f"Model restored! Epoch: {place}\n\nUsing CIFAR-10\n\n\n"
        for number, name in enumerate(("Error", "Blob", "Rademacher Noise")):
            text += block.format(name, method, 10 + number, number + 2 * place)
    with pytest.raises(UserError, match="#1: Error Detection"):
        read(tmp_path, text, "log.txt")
    found = read(tmp_path, text, "log.txt#2").results[0]
    assert found.ood == ("Blob", "Rademacher Noise") and found.detectors == (
        "net_plain", "net_tuned"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("cells", "value"),
    [
        (("Acc@1 73.7 Acc@5 91.5", "Acc@1 76.1 Acc@5 92.9"), 0.737),
        (("90.1 (91.2)", "92.3 (94.1)", "95.3 (97.8)"), 0.901),
        (("(model with 5 frames): 82.4", "81.2"), 0.824),
        (("x", "81.2", "82.3"), 0.812),
        (("91.2 / --- / 40.1", "93.2 / 81.0 / 35.5"), 0.912),
    ],
)
def test_cells_of_readmes(tmp_path, cells, value):
    rows = "".join(f"|net{n}|{cell}|\n" for n, cell in enumerate(cells))
    said = "AUROC / AUPR / FPR95" if "/" in cells[0] else "Accuracy"
    found = read(tmp_path, f"{said}\n\n|Model|SVHN|\n|-|-|\n{rows}").results[0].frame
    assert round(float(found["value"].iloc[0]), 4) == value and "spread" not in found


def test_a_metric_is_that_of_the_data_sets_behind_it(tmp_path):
    text = "|Model|AUC Ped2|Avenue|Other|Params|\n|-|-|-|-|-|\n"
    text += "|A|96.2|86.9|71.2|3|\n|B|97|87|72|4|\n"
    assert read(tmp_path, text.replace("|Params|", "|Mean|")).results[0].ood == (
        "Ped2", "Avenue", "Other"
    )  # fmt: skip
    asked(tmp_path, text, "ignore=Avenue, ignore=Other")  # unlike what stands last


STACKED = """Table 1. Results on CIFAR-10, in percent.
Method
OOD Dataset
ID ACC
SVHN
LSUN
Average
FPR↓
AUROC↑
FPR↓
AUROC↑
FPR↓
AUROC↑
Without training
MSP
50
90
40
92
45
91
94.2
KNN
20
96
30
95
25
95.5
94.2
With training
CSI
10
97
6
99
8
98
95.0
"""


def test_one_cell_per_line_below_two_lines_of_titles(tmp_path):
    found = read(tmp_path, STACKED, "paper.txt").results[0]
    assert found.ood == ("SVHN", "LSUN") and found.detectors == ("MSP", "KNN", "CSI")
    assert found.frame.query("detector == 'CSI'")["value"].tolist() == [0.97, 0.99]
    with pytest.raises(UserError):  # nothing tells where the accuracy stands
        read(tmp_path, STACKED.replace("91\n94.2", "99\n94.2"), "paper.txt")


def test_names_may_end_with_a_percentage(tmp_path):
    text = "Table 2: AUROC\nMethod SVHN LSUN\nStealth 95% 91.2 90.1\nStealth 90% 90.2 89.1\n"
    assert read(tmp_path, text, "page.txt").results[0].detectors == ("Stealth 95%", "Stealth 90%")


def test_columns_called_0_to_9_are_classes_or_asked_about(tmp_path):
    text = f"{{}}\n\n|Method|{'|'.join(map(str, range(10)))}|\n|{'-|' * 11}\n"
    text += "".join(f"|{m}|{'|'.join(f'9{n}.{m[-1]}' for n in range(10))}|\n" for m in ("A1", "B2"))
    asked(tmp_path, text.format("AUROC in percent"), "id=*", "repeat=*", "condition=*")
    found = read(tmp_path, text.format("AUROC per normal class")).results[0]
    assert len(set(found.frame["id"])) == 10 and not found.factors


@pytest.mark.parametrize("heading", ["{} (ID)", "{} as ID", "{} as in-distribution data"])
def test_headings_may_say_that_they_name_id_sets(tmp_path, heading):
    table = "## {}\n\n|Method|SVHN AUROC|\n|-|-|\n|MSP|{}1|\n|KNN|{}2|\n\n"
    tables = (table.format(heading.format(n), v, v) for n, v in (("Wings", 8), ("Leaves", 9)))
    assert set(read(tmp_path, "".join(tables)).results[0].frame["id"]) == {"Wings", "Leaves"}


def test_groups_of_names_below_named_levels(tmp_path):
    head = "|Dataset|Dataset|One|One|Two|Two|\n|-|-|-|-|-|-|\n|Metric|Metric|AUC|AUC|AUC|AUC|\n"
    head += "|Step|Step|5|10|5|10|\n"
    rows = "".join(
        f"|{group}|{name}|.{n}1|.{n}2|.{n}3|.{n}4|\n"
        for n, (group, name) in enumerate(
            [("Plain", "Random"), ("Plain", "MAAT"), ("Tuned", "Random"), ("Tuned", "MAAT")], 5
        )
    )
    found = read(tmp_path, head + rows).results[0]
    assert found.detectors == ("Random", "MAAT") and set(found.factor_names) == {"group", "Step"}


def test_pixels_and_samples_are_no_detectors(tmp_path):
    text = "|objects|auroc_px|auroc_sp|\n|-|-|-|\n|carpet|90.9|99.3|\n|bottle|85.7|98.6|\n"
    with pytest.raises(UserError, match="nothing to compare"):
        read(tmp_path, text)


def test_aligned_lines_without_a_first_cell(tmp_path):
    text = """Table 2: Results on two data sets.

Data (model)        Method   FPR95 ↓  AUROC ↑
CIFAR-10 (WRN)      Softmax  51.0     90.9
                    Energy   33.0     91.8
                    ODIN     35.7     91.0
CIFAR-100 (WRN-40)  Softmax  80.4     75.5
                    Energy   73.6     79.5
                    ODIN     74.6     77.4
"""
    for given in (text, text.replace("WRN-40)  ", "WRN-402) ")):
        found = read(tmp_path, given, "paper.txt").results[0]
        assert found.detectors == ("Softmax", "Energy", "ODIN") and len(found.frame) == 6


def test_names_before_metrics_below_seeds(tmp_path):
    text = "# Log\n\n```\n"
    for seed in range(3):
        text += f"=== seed {seed} ===\nMSP      AUROC=0.9{seed} FPR95=0.3{seed}\n"
        text += f"KNN      AUROC=0.95{seed} FPR95=0.2{seed}\n"
    found = read(tmp_path, text + "```\n").results[0]
    assert found.detectors == ("MSP", "KNN") and found.factor_names == ("seed",)


def test_near_and_far_outliers_below_id_sets(tmp_path):
    text = "AUROC\n\n||CIFAR-10|||CIFAR-100|||\n|-|-|-|-|-|-|-|\n"
    text += "|Method|Near-OOD|Far-OOD|ID Acc.|Near-OOD|Far-OOD|ID Acc.|\n"
    text += "|MSP|88.1|90.2|95.1|80.3|77.4|77.1|\n|KNN|90.5|92.6|95.1|80.7|82.8|77.1|\n"
    asked(tmp_path, text, "auroc=Near-OOD", "auroc=Far-OOD", "condition=*")
    found = read(tmp_path, text, columns="auroc=Near-OOD").results[0]
    assert set(found.frame["id"]) == {"CIFAR-10", "CIFAR-100"}


def test_ranges_beside_means_are_no_results(tmp_path):
    text = "AUC\n\n|Method|SVHN||LSUN||\n|-|-|-|-|-|\n||mean±std|range|mean±std|range|\n"
    text += "|KNN|75.5±0.2|0.9|60.1±0.2|1.1|\n|MSP|78.2±0.1|0.8|76.0±0.2|0.7|\n"
    assert len(read(tmp_path, text).results[0].frame) == 4


def test_blocks_between_bars_need_no_rule(tmp_path):
    block = "| Method | SVHN AUROC |\n| MSP | 9{}.1 |\n| KNN | 9{}.2 |\n\n"
    with pytest.raises(UserError, match="holds 2 tables"):
        read(tmp_path, block.format(1, 2) + block.format(3, 4).replace("SVHN", "LSUN"))


def test_names_beside_each_other_with_one_cell_per_line(tmp_path):
    text = "Table 1. Results.\nMethod\nSPADE\nPatchCore-25%\nAUROC\n85.5\n99.1\nError\n14.5\n0.9\n"
    assert means(read(tmp_path, text, "paper.txt")) == {"SPADE": 0.855, "PatchCore-25%": 0.991}


def test_a_column_of_judgements_is_left_out(tmp_path):
    text = "|Metric|Before|After|Status|\n|-|-|-|-|\n|Accuracy|0.91|0.92|better|\n"
    found = read(tmp_path, text + "|F1|0.8|0.7|worse|\n")
    assert "columns of remarks were left out: Status" in found.notes
    assert means(found) == {"Before": 0.91, "After": 0.92}


def test_titles_of_two_words_that_come_again_below_metrics(tmp_path):
    lines = ["Datasets RMSE NLL", "PBP Deep Ensembles PBP Deep Ensembles"]
    lines += [f"{name} 3.{n} ± 0.1 3.{n + 2} ± 0.2 2.{n + 1} ± 0.1 2.{n} ± 0.1"
              for n, name in enumerate(("Boston housing", "Concrete", "Power plant"))]  # fmt: skip
    found = read(tmp_path, "\n".join(lines), "t.txt").results[0]
    assert found.detectors == ("PBP", "Deep Ensembles") and found.metric == "NLL"
