"""What is compared, and on how many data sets, where pages do not say it: read right or asked."""

import pytest
from page_reading import asked, read

from oodometer.errors import UserError


def page(head, *rows, above=""):
    lines = [head, ["---"] * len(head), *rows]
    return f"{above}\n\n" + "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def levels(reading, column):
    frame = reading.results[0].frame
    return list(dict.fromkeys(frame[column])) if column in frame else []


def kinds(reading):
    return {factor.name: factor.kind for factor in reading.results[0].factors}


@pytest.mark.parametrize(
    ("first", "second", "accuracy"),
    [("模型", "分类器", "测试准确率"), ("Model", "Classifier", "Accuracy")],
)
def test_models_that_are_crossed_with_classifiers_are_asked_about(
    tmp_path, first, second, accuracy
):
    rows = [[m, c, 80.5 + len(m + c), 79] for m in ("net", "tree") for c in ("x", "yy")]
    text = page([first, second, accuracy, "F1"], *rows)
    asked(tmp_path, text, f"detector={first}", f"detector={second}")
    found = read(tmp_path, text, columns=f"detector={second}")
    assert found.results[0].metric == "accuracy" and levels(found, "detector") == ["x", "yy"]


def test_variants_that_belong_to_one_model_each_are_not_asked_about(tmp_path):
    rows = [["net", "small", 91.2], ["tree", "deep", 90.1], ["forest", "wide", 93.3]]
    found = read(tmp_path, page(["Model", "Classifier", "Accuracy"], *rows))
    assert len(levels(found, "detector")) == 3


def test_networks_above_columns_may_be_compared_or_be_conditions(tmp_path):
    head = ["Regularizer", *(f"{n} {s}" for n in ("ResNet-18", "VGG-16")
                             for s in ("CIFAR-10", "CIFAR-100"))]  # fmt: skip
    rows = [["plain", 94.1, 75.2, 92.3, 71.0], ["decay", 95.0, 76.9, 93.1, 72.2]]
    text = page(head, *rows, above="Accuracy")
    asked(tmp_path, text, "detector=Regularizer", "detector=network")
    found = read(tmp_path, text, columns="detector=Regularizer")
    assert kinds(found) == {"network": "condition"} and len(levels(found, "id")) == 2


@pytest.mark.parametrize(
    ("numbers", "kind"), [((42, 43, 44), "repeat"), ((0, 1, 2), "repeat"), ((1, 2, 3), "condition")]
)
def test_short_seeds_below_data_sets_are_no_data_sets(tmp_path, numbers, kind):
    head = ["Method", *(f"{s} s{n}" for s in ("CIFAR-10", "SVHN") for n in numbers)]
    rows = [[m, *(v + n / 10 for n in range(6))] for m, v in (("A", 94.1), ("B", 93.2))]
    found = read(tmp_path, page(head, *rows, above="Accuracy"))
    assert levels(found, "id") == ["CIFAR-10", "SVHN"] and list(kinds(found).values()) == [kind]


def test_two_data_sets_under_two_conditions_are_not_four(tmp_path):
    head = ["Method", "CIFAR-10 small batch", "CIFAR-10 large batch", "SVHN small batch",
            "SVHN large batch"]  # fmt: skip
    found = read(tmp_path, page(head, ["A", 91.1, 90.2, 95.1, 94.4], ["B", 92.1, 90.1, 96.1, 94.5],
                                above="Accuracy"))  # fmt: skip
    assert levels(found, "id") == ["CIFAR-10", "SVHN"]
    assert list(kinds(found).values()) == ["condition"]


@pytest.mark.parametrize("head", [["Acc@5", "Acc@1"], ["Acc@20", "Acc@1"], ["Acc@1", "Acc@5"]])
def test_accuracy_among_one_guess_decides_wherever_it_stands(tmp_path, head):
    first = head.index("Acc@1")
    rows = [[name, *(71.2 + n if k == first else 90.1 - n for k in range(2))]
            for n, name in enumerate(("A", "B", "C"))]  # fmt: skip
    found = read(tmp_path, page(["Method", *head], *rows))
    main = found.results[0]
    assert main.metric == "accuracy" and main.frame["value"].max() < 0.8


def test_accuracy_at_one_leaves_the_names_of_sets(tmp_path):
    head = ["Method", "CUB Acc@5", "CUB Acc@1", "Cars Acc@5", "Cars Acc@1"]
    found = read(tmp_path, page(head, ["A", 90.1, 71.2, 88.1, 70.2], ["B", 91.7, 70.4, 87.1, 71.3]))
    assert levels(found, "id") == ["CUB", "Cars"]


def test_models_in_a_column_called_dataset_are_compared(tmp_path):
    rows = [["LSTM", 0.0947], ["Bi-LSTM", 0.0815], ["GRU", 0.0819], ["CNN", 0.0703]]
    text = "".join(
        f"### {name}variate\n{page(['Dataset', 'RMSE'], *rows)}\n" for name in ("Uni", "Multi")
    )
    found = read(tmp_path, text)
    assert levels(found, "detector") == ["LSTM", "Bi-LSTM", "GRU", "CNN"]


def test_data_sets_without_a_metric_beside_one_with_it_are_not_dropped(tmp_path):
    head = ["Model", "CoLA", "SST-2", "MRPC (F1)", "WSC"]
    text = page(head, ["A", 73.7, 88.4, 82.2, 61.5], ["B", 76.5, 88.8, 82.6, 61.4])
    same = "F1=MRPC (F1), F1=CoLA, F1=SST-2, F1=WSC"
    asked(tmp_path, text, same, "ignore=CoLA, ignore=SST-2, ignore=WSC")
    assert set(levels(read(tmp_path, text, columns=same), "id")) == {
        "CoLA", "SST-2", "MRPC", "WSC"
    }  # fmt: skip


def test_tables_that_share_no_names_are_not_ranked_together_unasked(tmp_path):
    head = ["Model", "Accuracy"]
    text = (
        f"## One type\n{page(head, ['a', 0.48], ['b', 0.34])}\n"
        f"## Two types\n{page(head, ['c', 0.85], ['d', 0.64])}\n"
    )
    question = asked(tmp_path, text)
    assert "page.md#1'" in question and "page.md#1,2'" in question
    assert levels(read(tmp_path, text, "page.md#2"), "detector") == ["c", "d"]
    assert len(levels(read(tmp_path, text, "page.md#1,2"), "detector")) == 4


def test_what_stands_beside_seeds_is_no_seed(tmp_path):
    head = ["Method", "Seed 42", "Seed 7", "Seed 13", "Threshold", "Mean"]
    rows = [["A", 0.91, 0.90, 0.92, 0.2366, 0.91], ["B", 0.81, 0.83, 0.82, 0.4735, 0.82]]
    found = read(tmp_path, page(head, *rows), columns="accuracy=*")
    assert kinds(found) == {"seed": "repeat"} and len(found.results[0].frame) == 6
    assert dict(found.columns)["Threshold"] == "not used: not one of the runs beside it"


def test_results_on_days_are_not_taken_for_models(tmp_path):
    days = [["Monday", "2,020", 57.28, 82.4], ["Tuesday", "1,227", 56.9, 82.2],
            ["Friday", "1,950", 56.21, 82.8],
            ["Sunday", "1,852", 55.29, 82.1], ["Weekday Avg", "3,970", 56.74, 82.6],
            ["Weekend Avg", "1,852", 55.3, 82.2], ["Overall", "5,822", 56.28, 82.5]]  # fmt: skip
    text = page(["Day", "Samples", "Acc@1", "Acc@5"], *days)
    asked(tmp_path, text, "detector=Day")
    found = read(tmp_path, text, columns="detector=Day")
    assert levels(found, "detector") == ["Monday", "Tuesday", "Friday", "Sunday"]


def test_a_question_about_one_table_names_the_others_with_numbers(tmp_path):
    text = (
        f"## Zero-shot\n{page(['Sample Rate', 'Accuracy'], ['16 kHz', 0.98], ['44 kHz', 0.97])}\n"
        f"## Trained\n{page(['Model', 'plain', 'mixup'], ['a', 94.9, 96.3], ['b', 93.1, 94.6])}"
    )
    assert "#2: Trained (2 × 3)" in asked(tmp_path, text, "detector=Sample Rate")


def test_a_metric_per_megabyte_is_another_quantity(tmp_path):
    rows = [["A", 0.681, "0.5M", 1.36], ["B", 0.992, "68M", 0.015], ["C", 0.942, "11M", 0.118]]
    found = read(tmp_path, page(["Method", "AUROC", "Params", "AUROC/MB"], *rows))
    assert found.results[0].frame["value"].tolist() == [0.681, 0.992, 0.942]


def test_a_percent_sign_may_stand_before_the_number(tmp_path):
    found = read(tmp_path, page(["Model", "Accuracy"], ["A", "%97.35"], ["B", "%96.46"]))
    assert found.results[0].frame["value"].tolist() == pytest.approx([0.9735, 0.9646])


def test_a_text_that_names_one_metric_is_doubted_where_signs_differ(tmp_path):
    head = ["Method", "Synthetic", "Gaussians", "CIFAR-100", "Omniglot"]
    rows = [["A", -1.47, -1.32, 0.92, 0.81], ["B", -2.04, -1.95, 0.56, 0.61]]
    text = page(head, *rows, above="Likelihood per sample, and the adjusted Rand index (ARI).")
    asked(tmp_path, text, "ignore=Synthetic, ignore=Gaussians", "higher=*")


TITLES = {
    "aligned": "            SVHN            LSUN            iSUN\n"
    "Method      FPR95  AUROC    FPR95  AUROC    FPR95  AUROC\n",
    "words": "Method SVHN LSUN iSUN\nFPR95 AUROC FPR95 AUROC FPR95 AUROC\n",
    "a line each": "Method\nSVHN LSUN iSUN\nFPR95 AUROC FPR95 AUROC FPR95 AUROC\n",
}


@pytest.mark.parametrize("form", TITLES)
def test_text_of_a_paper_with_two_lines_of_titles(tmp_path, form):
    gap = "   " if form == "aligned" else " "
    rows = [
        ["MSP", 40.1, 91.2, 45.0, 90.1, 60.2, 85.1],
        ["KNN", 30.5, 94.5, 31.3, 93.9, 51.2, 87.2],
    ]
    lines = "".join(gap.join(map(str, row)) + "\n" for row in rows)
    found = read(tmp_path, TITLES[form] + lines, "copied.txt")
    assert found.results[0].metric == "auroc" and levels(found, "ood") == ["SVHN", "LSUN", "iSUN"]
    values = sorted(found.results[0].frame["value"])
    assert values == pytest.approx([0.851, 0.872, 0.901, 0.912, 0.939, 0.945])


def test_names_in_the_middle_of_their_groups(tmp_path):
    text = (
        "\\begin{tabular}{llc}\nDataset & Method & Acc \\\\\n\\midrule\n& A & 94.1 \\\\\n"
        "CIFAR-10 & B & 94.5 \\\\\n& C & 95.4 \\\\\n\\midrule\n& A & 75.1 \\\\\n"
        "CIFAR-100 & B & 75.9 \\\\\n& C & 78.4 \\\\\n\\end{tabular}\n"
    )
    found = read(tmp_path, text, "paper.tex")
    frame = found.results[0].frame
    lowest = frame.groupby("id", sort=False)["value"].min().to_dict()
    assert lowest == pytest.approx({"CIFAR-10": 0.941, "CIFAR-100": 0.751})


def test_two_numbers_in_a_cell_may_be_named_by_an_option(tmp_path):
    head = ["Method", "Loss", "ETTh1", "ETTh2", "Avg."]
    rows = [["A", "L1", ".344/.368", ".257/.312", ".300/.340"],
            ["B", "L2", ".353/.378", ".256/.310", ".305/.344"]]  # fmt: skip
    text = page(head, *rows)
    assert "hold two numbers" in asked(tmp_path, text, "FPR95/AUROC=*")
    found = read(tmp_path, text, columns="MSE/MAE=*")
    main, other = found.results
    assert (main.metric, other.metric) == ("MSE", "MAE") and not main.higher_is_better
    assert main.frame["value"].tolist() == [0.344, 0.353, 0.257, 0.256]
    with pytest.raises(UserError, match="'Foo' is not a known metric"):
        read(tmp_path, text, columns="MSE/Foo=*")
    with pytest.raises(UserError, match="no column holds cells of two numbers"):
        read(tmp_path, page(["Method", "MSE"], ["A", 0.3], ["B", 0.4]), columns="MSE/MAE=*")


def test_detection_at_a_low_rate_of_false_alarms_is_not_their_rate(tmp_path):
    found = read(tmp_path, page(["Detector", "AUROC", "TPR@1%FPR"], ["A", 0.995, 0.944],
                                ["B", 0.960, 0.811]))  # fmt: skip
    assert [result.metric for result in found.results] == ["auroc"]


def test_a_metric_that_no_method_changes_does_not_decide(tmp_path):
    rows = [["net", "plain", 0.187, 0.731], ["net", "scaled", 0.089, 0.731],
            ["tree", "plain", 0.143, 0.814], ["tree", "scaled", 0.029, 0.814]]  # fmt: skip
    found = read(tmp_path, page(["Model", "Method", "ECE", "Accuracy"], *rows))
    assert found.results[0].metric == "calibration error"
    assert any("accuracy does not differ" in note for note in found.notes)


def test_a_drop_beside_each_model_is_not_compared(tmp_path):
    head = ["corruption", "PRM", "drop", "NDA", "drop"]
    rows = [["fog", 0.976, -0.0048, 0.9808, 0.002], ["snow", 0.955, 0.0048, 0.9512, 0.001]]
    text = page(head, *rows, above="Accuracy")
    asked(tmp_path, text, "detector=*")
    assert levels(read(tmp_path, text, columns="detector=*"), "detector") == ["PRM", "NDA"]


def test_lines_of_means_that_nothing_tells_apart_are_not_runs(tmp_path):
    rows = [["A", "0.77±0.04", "0.90±0.01"], ["B", "0.56±0.05", "0.78±0.02"],
            ["A", "0.67±0.04", "0.80±0.01"], ["B", "0.46±0.05", "0.68±0.02"]]  # fmt: skip
    text = page(["Method", "TN3K", "DDTI"], *rows)
    with pytest.raises(UserError, match="Several lines of A hold a mean with its spread"):
        read(tmp_path, text, columns="auroc=*")
    alone = [[name, *(cell.partition("±")[0] for cell in cells)] for name, *cells in rows]
    found = read(tmp_path, page(["Method", "TN3K", "DDTI"], *alone), columns="auroc=*")
    assert list(kinds(found).values()) == ["repeat"]


@pytest.mark.parametrize(
    ("splits", "kind"), [(("random", "scaffold"), "condition"), (("0", "1"), "repeat")]
)
def test_ways_to_split_are_no_repeats(tmp_path, splits, kind):
    rows = [
        [s, m, 0.4 + 0.1 * n + 0.2 * k] for n, s in enumerate(splits) for k, m in enumerate("AB")
    ]
    found = read(tmp_path, page(["Split", "Model", "F1"], *rows))
    assert kinds(found) == {"split": kind}


def test_a_second_line_of_titles_may_hold_a_number(tmp_path):
    rows = [" & \\multicolumn{2}{c}{small} & \\multicolumn{2}{c}{CIFAR-100}",
            "Method & Food-101 & DTD & 5,000 & Full", "A & 55.1 & 52.3 & 74.8 & 86.9",
            "B & 56.0 & 53.1 & 75.4 & 87.1"]  # fmt: skip
    lines = "".join(f"{row} \\\\\n" for row in rows)
    text = f"\\begin{{tabular}}{{lrrrr}}\n{lines}\\end{{tabular}}\n"
    found = read(tmp_path, text, "paper.tex", "accuracy=*")
    assert "CIFAR-100 5,000" in dict(found.columns) and len(found.results[0].frame) == 8


def test_an_average_beside_one_other_number_is_a_result(tmp_path):
    head = ["Method", "Birds Avg.", "Birds WGA", "Faces Avg.", "Faces WGA"]
    text = page(head, ["A", 97.3, 72.6, 95.6, 47.2], ["B", 93.3, 86.7, 88.1, 81.1])
    asked(tmp_path, text, "higher=Birds Avg.", "higher=Birds WGA")


def test_overlap_of_the_best_ten_is_no_accuracy(tmp_path):
    head = ["Method", "Top-10 overlap", "MAPE"]
    found = read(tmp_path, page(head, ["A", 0.47, 12.04], ["B", 0.58, 8.28]))
    assert [result.metric for result in found.results] == ["MAPE"]


def test_overall_and_mean_class_accuracy_are_two_metrics(tmp_path):
    head = ["Method", "Overall Accuracy", "Mean Class Accuracy"]
    found = read(tmp_path, page(head, ["A", 91.9, 89.2], ["B", 92.8, 90.1]))
    assert [result.metric for result in found.results] == ["accuracy", "balanced accuracy"]
    assert found.results[0].frame["value"].tolist() == pytest.approx([0.919, 0.928])


def test_another_number_in_brackets_with_a_word_is_a_remark(tmp_path):
    rows = [["A", "SSL on photos", "66.95 % (77.97 % val)"], ["B", "ImageNet-1k", "61.44 %"],
            ["C", "ImageNet-1k", "57.20 %"]]  # fmt: skip
    found = read(tmp_path, page(["Model", "Backbone", "Top-1"], *rows))
    assert found.results[0].frame["value"].tolist() == pytest.approx([0.6695, 0.6144, 0.572])
    assert not levels(found, "id")  # what a backbone was trained on is no data set of the table


def test_a_table_that_describes_the_data_sets_is_not_one_of_results(tmp_path):
    sizes = page(["Dataset", "Drugs", "Diseases"], ["F", 593, 313], ["C", 663, 409])
    rows = [[s, m, 0.9 + n / 100] for s in "FC" for n, m in enumerate(("A", "B"))]
    found = read(
        tmp_path, f"## Data\n{sizes}\n## Results\n{page(['Dataset', 'Method', 'AUROC'], *rows)}"
    )
    assert levels(found, "detector") == ["A", "B"]


def test_headings_are_not_taken_for_models_unasked(tmp_path):
    head = ["Seed", "AUROC", "F1"]
    text = "".join(f"### {name} (n=197)\n{page(head, [42, 0.99 - n / 50, 0.9], [7, 0.98, 0.8])}\n"
                   for n, name in enumerate(("WOOD", "BOTTLE")))  # fmt: skip
    assert "nothing to compare" in asked(tmp_path, text, "detector=section")
    named = text.replace("WOOD", "ResNet-18").replace("BOTTLE", "VGG-16")
    assert levels(read(tmp_path, named), "detector") == ["ResNet-18", "VGG-16"]


@pytest.mark.parametrize("forms", [("Bit acc", "Seq acc"), ("Acc. strict", "Acc. norm.")])
def test_strict_and_normalized_accuracy_are_never_averaged(tmp_path, forms):
    text = page(["Model", *forms], ["A", 0.896, 0.320], ["B", 0.948, 0.531])
    asked(tmp_path, text, *(f"higher={form}" for form in forms))


def test_other_metrics_of_a_baseline_are_no_repeated_runs(tmp_path):
    head = ["Model", "RMSE", "R2", "Persistence RMSE", "Persistence R2"]
    text = page(head, ["A", 11.49, 0.569, 16.76, 0.083], ["B", 14.48, 0.285, 21.44, 0.067])
    found = read(tmp_path, text, columns="R2=R2")
    assert not kinds(found) and found.results[0].frame["value"].tolist() == [0.569, 0.285]
    assert not any("repeat a cell" in note for note in found.notes)


def test_where_all_lines_are_of_one_model_nothing_is_compared(tmp_path):
    text = "classifier_name,dataset_name,iteration,accuracy\n" + "".join(
        f"pine,{name},{run},0.{n}{run}\n"
        for n, name in enumerate(("oak", "elm", "fir"), start=5) for run in (0, 1)
    )  # fmt: skip
    with pytest.raises(
        UserError, match="'classifier_name' says pine on every line: nothing is"
    ) as e:
        read(tmp_path, text)
    assert "detector=iteration" not in str(e.value)


def test_lines_that_no_title_calls_models_may_be_nothing_that_is_compared(tmp_path):
    text = "stage,advice,accuracy\nlow,quick look,0.9\nmiddle,full look,0.7\nhigh,expert,0.4\n"
    with pytest.raises(UserError, match="if none does, there is nothing to compare"):
        read(tmp_path, text)


def test_pairs_of_numbers_beside_auroc_do_not_decide(tmp_path):
    text = (
        "Method,AUROC,Calib AUPRC (u/t)\nMSP,0.91,0.40/0.30\nKNN,0.93,0.41/0.31\nViM,0.92,0.4/0.2\n"
    )
    found = read(tmp_path, text)
    assert found.results[0].metric == "auroc" and not found.results[0].factors
    assert len({results.metric for results in found.results}) == 3


def test_lines_about_images_and_about_pixels_are_no_contest(tmp_path):
    text = (
        "Localization AUROC:\n\n| | Avg | Carpet | Grid | Leather |\n|---|---|---|---|---|\n"
        "| resnet18 (Image-level) | 0.9 | 0.95 | 0.9 | 0.85 |\n"
        "| resnet18 (Pixel-level) | 0.95 | 0.98 | 0.95 | 0.92 |\n"
    )
    question = asked(tmp_path, text, "detector=column 1")
    assert "are results of different tasks" in question
    rows = [f"{m},{n},0.9{k}{j}" for j, m in enumerate("ab") for k, n in enumerate(["image", "px"])]
    question = asked(tmp_path, "\n".join(["model,level,AUROC", *rows]), "condition=level")
    assert "'image' and 'px' are results of different tasks" in question
