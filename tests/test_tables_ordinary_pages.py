"""What ordinary READMEs do: units in headings, tables of means, numbers of papers beside own."""

import pytest
from page_reading import asked, read
from test_tables_page_layouts import means

from oodometer.errors import UserError
from oodometer.tables.pages.markdown import markdown_tables


def test_a_metric_in_brackets_is_the_unit_of_the_numbers_below(tmp_path):
    rows = "| | Re18-d10 | Re50-d90 |\n|-|-|-|\n| bottle | 91 | 95 |\n| cable | 89 | 96 |\n"
    text = f"### Pixel-level anomaly detection accuracy (ROCAUC %)\n\n{rows}"
    found = read(tmp_path, text)
    assert found.results[0].metric == "auroc" and means(found) == {
        "Re18-d10": 0.9,
        "Re50-d90": 0.955,
    }
    with pytest.raises(UserError, match="may be something else"):  # prose abbreviates
        read(tmp_path, text.replace("accuracy (ROCAUC %)", "in short (AUROC)."))


def test_bars_in_a_header_that_has_too_many_cells_belong_to_their_cells(tmp_path):
    head = "| Noise Regime | Estimation Method | Error ||A - B||_F | ||A^-1||_2 | Test Acc (%) |"
    rows = ["| none | plain | 0.1 | 1.2 | 90.1 |", "| none | anchor | 0.2 | 1.3 | 90.4 |",
            "| half | plain | 0.3 | 1.4 | 80.1 |",
            "| half | anchor | 0.4 | 1.5 | 80.8 |"]  # fmt: skip
    text = "\n".join([head, "|---|---|---|---|---|", *rows])
    assert markdown_tables(text)[0].rows[0][2:4] == ["Error ||A - B||_F", "||A^-1||_2"]
    assert means(read(tmp_path, text)) == {"plain": 0.851, "anchor": 0.856}


def test_columns_that_name_lines_only_together_may_be_compared_together(tmp_path):
    rows = ["early,sum,0.91", "middle,sum,0.95", "late,sum,0.85", "all,mean,0.96", "all,max,0.97"]
    text = "\n".join(["Layer,Aggregation,AUROC", *rows])
    said = asked(tmp_path, text, "detector=Layer", "detector=Layer+Aggregation", name="t.csv")
    assert said.count("detector=") == 3
    crossed = [f"{layer},{how},0.9{n}{m}" for n, layer in enumerate("abc")
               for m, how in enumerate(["sum", "mean", "max"])]  # fmt: skip
    text = "\n".join(["Layer,Aggregation,AUROC", *crossed])
    with pytest.raises(UserError) as caught:
        read(tmp_path, text, "t.csv")
    assert "+" not in str(caught.value)


def test_names_that_hardly_any_track_shares_are_asked_about(tmp_path):
    rows = [("Prompt", "plain", 85), ("Prompt", "formal", 79), ("Prompt", "short", 77),
            ("Edit", "plain", 91), ("Edit", "casual", 84), ("Edit", "typos", 76)]  # fmt: skip
    lines = [f"| {track} | {name} | {value} |" for track, name, value in rows]
    text = "\n".join(["| Track | Method | AUROC |", "|-|-|-|", *lines])
    asked(tmp_path, text, "detector=Method+Track", "condition=Track")


def test_averages_called_best_and_findings_such_as_the_best_data_set_are_left_out(tmp_path):
    text = "| Method | AVG Best | Art | Photo | Sketch |\n|-|-|-|-|-|\n"
    text += "| A | 70 | 60 | 80 | 70 |\n| B | 71 | 61 | 81 | 71 |\n"
    assert read(tmp_path, text, columns="accuracy=*").results[0].ids == ("Art", "Photo", "Sketch")
    text = "| Model | Accuracy | Best Dataset |\n|-|-|-|\n"
    text += "| A | 0.9 | x (1.0) |\n| B | 0.8 | y (0.9) |\n"
    found = read(tmp_path, text)
    assert dict(found.columns)["Best Dataset"] == "not used: found in each run"


def test_tables_of_means_and_of_differences_are_not_asked_about(tmp_path):
    head = "SVHN AUROC | LSUN AUROC |\n|-|-|-|\n"
    sets = f"## Per set\n| Method | {head}| MSP | 80 | 90 |\n| KNN | 84 | 92 |\n"
    mean = "\n## Average over sets\n| Scorer | AUROC |\n|-|-|\n| MSP | 85 ± 1 |\n| KNN | 88 ± 1 |\n"
    gain = f"\n## Gains\n| Pair | {head}| KNN − MSP | +4 | +2 |\n| MSP − KNN | −4 | −2 |\n"
    found = read(tmp_path, sets + mean + gain)
    assert found.results[0].ood == ("SVHN", "LSUN")
    assert [table.why_not for table in found.found] == ["", "means of other tables",
                                                        "differences to others"]  # fmt: skip
    assert read(tmp_path, sets + mean, "page.md#2").results[0].frame["spread"].notna().all()
    for apart in (mean.replace("88", "98"), mean.replace("Average over sets", "Scores")):
        with pytest.raises(UserError, match="holds 2 tables with results"):
            read(tmp_path, sets + apart)
    # The mean of more sets, and more names.
    for unlike in ("| KNN | 91 |\n", "| KNN | 88 |\n| ViM | 88 |\n"):
        with pytest.raises(UserError, match="holds 2 tables with results"):
            read(tmp_path, sets + mean.replace("| KNN | 88 ± 1 |\n", unlike))
    other = mean.replace("MSP", "ODIN").replace("KNN", "ViM")  # of other names
    asked_about = "holds 2 tables with results"
    with pytest.raises(UserError, match=asked_about):
        read(tmp_path, sets + other)
    with pytest.raises(UserError, match=asked_about):  # nothing more detailed beside it
        read(tmp_path, sets.replace("LSUN AUROC", "Year").replace("90", "2020") + mean)


def test_numbers_of_a_paper_beside_own_ones_are_not_another_variant(tmp_path):
    rows = ["| MSP | 91.2 | 81.1 |", "| KNN | 91.4 | 82.2 |", "| ViM | 90.4 | 80.0 |"]
    for own, paper in (("AUROC (ours)", "AUROC (paper)"), ("Our AUROC", "Reported AUROC")):
        found = read(tmp_path, "\n".join([f"| Method | {own} | {paper} |", "|-|-|-|", *rows]))
        assert found.results[0].factor_names == () and len(found.results[0].frame) == 3
        assert dict(found.columns)[paper] == "not used: as others report it"
    methods = "| Data | AUROC (ReAct) | AUROC (ours) | AUROC (paper A) |\n|-|-|-|-|\n"
    methods += "| SVHN | 88.1 | 91.2 | 90 |\n| LSUN | 82.4 | 91.1 | 89 |\n"
    assert read(tmp_path, methods).results[0].detectors == ("ReAct", "ours", "paper A")


def test_test_and_submission_are_splits_not_data_sets(tmp_path):
    rows = ["| A | 0.81 | 0.60 |", "| B | 0.84 | 0.65 |", "| C | 0.79 | 0.66 |"]
    for titles in ("F1 on test set | F1 on submission set", "Test set F1 | Submission set F1"):
        found = read(tmp_path, "\n".join([f"| Model | {titles} |", "|-|-|-|", *rows]))
        assert [results.metric for results in found.results] == ["F1", "submission F1"]
        assert means(found)["B"] == 0.84


def test_pairs_of_numbers_beside_a_metric_are_read_or_told(tmp_path):
    rows = [
        "| MSP | 91 | 81.1 / 95.0 |",
        "| KNN | 92 | 82.2 / 96.1 |",
        "| ViM | 90 | 80.0 / 94.2 |",
    ]
    found = read(tmp_path, "\n".join(["| Method | AUROC | Near / Far |", "|-|-|-|", *rows]))
    assert any(note.startswith("'Near', 'Far': not compared") for note in found.notes)
    assert read(tmp_path, (tmp_path / "page.md").read_text(), columns="higher=Near").results
    found = read(tmp_path, "\n".join(["| Method | AUROC | Oakmill |", "|-|-|-|", *rows]))
    assert any("no title says what the numbers in a cell are" in note for note in found.notes)


def test_a_number_alone_among_pairs_is_told(tmp_path):
    rows = [
        "| A | 0.35/0.37 | 0.24/0.30 |",
        "| B, MSE only | 0.34 | 0.23 |",
        "| C | 0.36/0.38 | 0.25/0.31 |",
    ]
    text = "\n".join(["Averages, MSE/MAE", "", "| Model | ETTh1 | ETTm1 |", "|-|-|-|", *rows])
    found = read(tmp_path, text)
    assert found.results[0].detectors == ("A", "C")
    assert any(note.endswith("is not used: B, MSE only") for note in found.notes)


def test_titles_that_name_a_method_with_and_without_something_may_be_compared(tmp_path):
    rows = [f"| {name} | 0.3{n} | 0.2{n} |" for n, name in enumerate(["LSTM", "GRU", "TCN"])]
    text = "\n".join(["| Model | Original MSE | +CN MSE |", "|-|-|-|", *rows])
    asked(tmp_path, text, "detector=*", "condition=*", "MSE=+CN MSE")
    assert "detector=*" not in asked(
        tmp_path, text.replace("Original", "Frame").replace("+CN", "Event"), "condition=*"
    )


def test_tables_that_hardly_share_a_name_are_not_joined_unasked(tmp_path):
    head = "| Model | Near-OOD | Far-OOD |\n|-|-|-|\n"
    first = "".join(
        f"| {name} | 8{n} | 7{n} |\n" for n, name in enumerate(["GCN", "GIN", "GAT", "ResNet"])
    )
    other = "".join(
        f"| {name} | 9{n} | 8{n} |\n" for n, name in enumerate(["GPS", "ViT", "ResNet"])
    )
    text = f"## Topology accuracy\n{head}{first}\n## Symmetry accuracy\n{head}{other}"
    with pytest.raises(UserError, match="page.md#1,2"):
        read(tmp_path, text)
    assert len(read(tmp_path, text, "page.md#2").results[0].detectors) == 3


def test_cells_of_a_grid_need_not_stand_below_each_other(tmp_path):
    rule = "+------+------+-------+---------+----------+"
    rows = [
        "| SVHN | MSP  | 94.5 | 95.77   | 93.1   |",
        "| LSUN | MSP  | 88.2 | 89.24   | 86.0   |",
        "| SVHN | KNN  | 95.5 | 95.97   | 94.1   |",
        "| LSUN | KNN  | 89.2 | 89.94   | 87.0   |",
    ]
    lines = [rule, "| Data | Detector | AUROC | AUPR-IN | AUPR-OUT |", rule.replace("-", "=")]
    text = "Results\n-------\n\n" + "\n".join([*lines, *(f"{row}\n{rule}" for row in rows)])
    found = read(tmp_path, text, "page.rst")
    assert means(found) == {"MSP": 0.9135, "KNN": 0.9235}
    assert [results.metric for results in found.results] == ["auroc", "aupr_in", "aupr_out"]


def test_a_bare_rate_beside_fpr95_is_another_one(tmp_path):
    text = (
        "detector,AUROC,FPR@95TPR,LOCO mean FPR\nA,0.99,0.01,0.01\nB,0.93,0.06,1.0\nC,0.9,0.1,1.0\n"
    )
    found = read(tmp_path, text, "t.csv")
    assert [results.metric for results in found.results] == ["auroc", "fpr95"]
    assert dict(found.columns)["LOCO mean FPR"] == "not used: another kind of metric"


def test_all_beside_one_part_of_it_is_no_mean(tmp_path):
    rows = ["raw,0.046,0.155", "temperature,0.044,", "isotonic,0.004,0.014"]
    text = "\n".join(["method,ECE (all),ECE (score > 0.25)", *rows])
    asked(tmp_path, text, "calibration_error=ECE (all)", name="t.csv")
    found = read(tmp_path, text, "t.csv", "calibration_error=ECE (all)")
    assert found.results[0].detectors == ("raw", "temperature", "isotonic")


def test_seeds_are_runs_also_where_a_search_is_mentioned(tmp_path):
    rows = "| Grid best | 0.859 ± 0.03 |\n| GA best | 0.884 ± 0.009 |\n"
    text = f"Validated search results ({{}}).\n\n| Method | AUROC |\n|-|-|\n{rows}"
    assert set(read(tmp_path, text.format("10 seeds")).results[0].frame["runs"]) == {10}
    assert "runs" not in read(tmp_path, text.format("10 trials")).results[0].frame


def test_a_noise_floor_is_no_competitor(tmp_path):
    found = read(tmp_path, "Method,AUROC\nA,0.6\nB,0.58\nnoise floor (95th pct),0.54\n", "t.csv")
    assert found.results[0].detectors == ("A", "B")


def test_headings_below_one_about_each_data_set_name_data_sets(tmp_path):
    table = "| Method | AUROC |\n|-|-|\n| MSP | {} |\n| KNN | {} |\n"
    parts = [f"### {name}\n{table.format(80 + n, 85 + n)}"
             for n, name in enumerate(["Cityline", "Oakmill", "Harborview"])]  # fmt: skip
    found = read(tmp_path, "\n".join(["## Per-dataset results", *parts]))
    assert found.results[0].ood == ("Cityline", "Oakmill", "Harborview")
    assert read(tmp_path, "\n".join(["## Results", *parts])).results[0].factor_names == ("section",)


def crossed_titles(second):
    sets = ("Cityline", "Oakmill", "Harborview")
    titles = " & ".join(f"{name} {other}" for name in sets for other in second)
    rows = [
        f"{name} & 8{n} & 6{n} & 7{n} & 6{n} & 7{n} & 6{n}"
        for n, name in enumerate(["MSP", "KNN", "ViM"])
    ]
    body = r" \\ ".join([f"Method & {titles}", *rows])
    tabular = rf"\begin{{tabular}}{{lcccccc}}{body}\end{{tabular}}"
    return rf"\begin{{table}}\caption{{AUROC}}{tabular}\end{{table}}"


def test_crossed_titles_with_unknown_data_sets_may_be_parted(tmp_path):
    results = read(tmp_path, crossed_titles(("ResNet", "ViT")), name="known.tex").results[0]
    assert len(results.ood) == 3 and results.factor_names == ("network",)
    text = crossed_titles(("plain", "rich"))
    asked(tmp_path, text, "ood+condition=*", "ood=*", name="page.tex")


def test_unknown_columns_beside_several_metrics_are_no_more_of_one_of_them(tmp_path):
    rows = ["| plain | 0.39 | 4.2 | 0.565 | 0.409 |", "| scaled | 0.32 | 0.7 | 0.207 | 0.424 |",
            "| isotonic | 0.01 | 0.4 | 0.299 | 0.402 |"]  # fmt: skip
    text = "\n".join(["| method | ECE | NLL | FG(mis) | rho |", "|-|-|-|-|-|", *rows])
    said = asked(tmp_path, text, "ignore=FG(mis), ignore=rho", "lower=FG(mis)")
    assert "NLL=" not in said
