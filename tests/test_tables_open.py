"""Tables whose titles leave something open: read where names settle it, asked where they do not."""

import json

import pytest

from oodometer.analysis import analyze
from oodometer.errors import UserError
from oodometer.tables import read_results
from oodometer.tables.cells import is_gap, read_cell


def read(tmp_path, text, columns="", name="t.csv", part=""):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_results(f"{path}{part}", columns)


def numbers(results, *by):
    lines = results.frame[[*by, "value"]].to_numpy().tolist()
    return {tuple(keys) if len(keys) > 1 else keys[0]: value for *keys, value in lines}


def asked(tmp_path, text, *said, **how):
    with pytest.raises(UserError) as problem:
        read(tmp_path, text, **how)
    for words in said:
        assert words in str(problem.value)
    return str(problem.value)


def markdown(*lines):
    header, *rows = (f"| {line.replace(',', ' | ')} |" for line in lines)
    return "\n".join([header, "|" + "---|" * header.count(" | ") + "---|", *rows, ""])


def test_forms_of_a_metric_are_never_averaged(tmp_path):
    text = "method,PA-F1,Standard-F1,Event-based-F1\nA,.81,.42,.55\nB,.72,.51,.49\n"
    asked(tmp_path, text, "different metrics", 'higher=PA-F1"')
    found = read(tmp_path, text, "higher=PA-F1").results[0]
    assert numbers(found, "detector") == {"A": 0.81, "B": 0.72}
    # Rows are data sets of one model: its metrics are not what is compared.
    asked(tmp_path, text.replace("method", "dataset"), "nothing to compare")


def test_forms_of_a_metric_on_several_sets(tmp_path):
    text = "method,S1 PA-F1,S1 raw F1,S2 PA-F1,S2 raw F1\nA,.8,.1,.7,.2\nB,.6,.3,.9,.1\n"
    asked(tmp_path, text, "ignore=S1 raw F1, ignore=S2 raw F1", "ignore=S1 PA-F1")
    found = read(tmp_path, text, "ignore=S1 raw F1, ignore=S2 raw F1").results[0]
    assert sorted(found.frame["value"]) == [0.6, 0.7, 0.8, 0.9]


def test_results_on_test_data_are_no_mean_of_those_on_validation_data(tmp_path):
    text = "method,val_auroc,test_auroc\nMSP,.95,.81\nKNN,.91,.88\n"
    main, other = read(tmp_path, text).results
    assert numbers(main, "detector") == {"MSP": 0.81, "KNN": 0.88}
    assert other.metric == "val auroc"


def test_differences_are_no_results(tmp_path):
    text = "method,dataset,AUPRC,AUROC,ΔAUPRC vs base\n" + "".join(
        f"{d},{s},{a},{b},{c}\n"
        for d, s, a, b, c in [
            ("base", "x", 0.3, 0.6, "-"), ("new", "x", 0.4, 0.7, "+0.1"),
            ("base", "y", 0.5, 0.8, "-"), ("new", "y", 0.4, 0.9, "-0.1"),
        ]
    )  # fmt: skip
    found = read(tmp_path, text)
    assert [part.metric for part in found.results] == ["auroc", "AUPR"]
    rows = "method,S1 NDCG,S2 NDCG\nA,.031,.042\nB,.035,.044\nGain,+12.9%,+4.8%\n"
    assert read(tmp_path, rows).results[0].detectors == ("A", "B")
    asked(tmp_path, "variant,Accuracy Δ\nno A,-3.2pp\nno B,-1.1pp\n", "differences")


def test_numbers_with_a_sign_are_results_if_the_user_says_so(tmp_path):
    text = (
        "Method,In-dist,mid shift,far shift\nA,+0.1,-0.1,+0.2\nB,+0.8,+0.6,+0.4\nC,+1.5,-0.9,+0.6\n"
    )
    found = read(tmp_path, text, "higher=*").results[0]
    assert len(found.frame) == 9 and found.frame["value"].max() == 1.5


def test_rows_that_describe_others_are_no_detectors(tmp_path):
    head, rows = "name,test_acc\n", "a,.91\nb,.93\n"
    statistics = "count,2\nmean,.92\nstd,.01\nmin,.91\n25%,.91\n50%,.92\n75%,.93\nmax,.93\n"
    assert read(tmp_path, head + rows + statistics).results[0].detectors == ("a", "b")
    asked(tmp_path, head + statistics, "statistics")


def test_titles_may_be_what_is_compared(tmp_path):
    text = "Budget,Frozen AUPRC,Tuned AUPRC,paired p\n100%,.94,.95,.01\n10%,.90,.87,.25\n"
    asked(tmp_path, text, '"detector=*"')
    (found,) = read(tmp_path, text, "detector=*").results
    assert found.detectors == ("Frozen", "Tuned") and found.factor_names == ("Budget",)
    rows = "Metric,Small,Large,Delta\nimage_AUROC,.84,.83,-.01\npixel_AUROC,.79,.85,+.06\n"
    first, second = read(tmp_path, rows, name="sensitivity.csv").results
    assert numbers(first, "detector") == {"Small": 0.84, "Large": 0.83}
    assert {first.metric, second.metric} == {"image auroc", "pixel auroc"}


def test_means_and_spreads_beside_folds_are_known_by_their_numbers(tmp_path):
    head = "模型,Fold 1,Fold 2,Fold 3,综合,波动\n"
    text = head + "A,80.0,82.0,84.0,82.0,1.63\nB,70.0,73.0,79.0,74.0,3.74\n"
    found = read(tmp_path, text, "accuracy=*").results[0]
    assert found.factor_names == ("fold",) and len(found.frame) == 6
    asked(tmp_path, text.replace("模型", "Init"), "numbered like runs")


def test_percentages_beside_fractions_may_be_something_else(tmp_path):
    head = "score,novel A,flag @ 80%,novel B,flag @ 80%\n"
    text = head + "MSP,.90,13 %,.87,38 %\nKNN,.77,41 %,.71,59 %\n"
    said = asked(tmp_path, text, "fractions", "percentages")
    answer = said.split('--columns "')[1].split('"')[0]
    found = read(tmp_path, text, answer).results[0]
    assert sorted(found.frame["value"]) == [0.71, 0.77, 0.87, 0.90]


def test_variants_in_titles_are_conditions(tmp_path):
    text = "Method,Baseline AUROC,+ Coverage AUROC\nEnergy,.68,.85\nKNN,.50,.86\n"
    found = read(tmp_path, text).results[0]
    assert found.factor_names == ("variant",) and len(found.ood) == 1


def test_a_subset_is_no_data_set_beside_known_ones(tmp_path):
    lines = [
        f"{d},{s},{f},0.{n}{m}{k}"
        for n, d in enumerate(["A", "B"], 3)
        for m, s in enumerate(["all", "drift"], 1)
        for k, f in enumerate(["SMAP", "MSL", "SMD", "PSM"], 2)
    ]
    text = "\n".join(["method,subset,family,auc_pr", *lines, ""])
    found = read(tmp_path, text).results[0]
    assert set(found.frame["id"]) == {"SMAP", "MSL", "SMD", "PSM"}
    for known, new in zip(["SMAP", "MSL", "SMD", "PSM"], "wxyz", strict=True):
        text = text.replace(known, new)
    asked(tmp_path, text, "id=family", "id=subset")


def test_the_name_of_a_file_is_no_detector_beside_models(tmp_path):
    text = "Model,AUROC\nTCN-VAE,.94\nMamba-VAE,.95\n"
    assert read(tmp_path, text, name="tcn_vae.csv").results[0].detectors == ("TCN-VAE", "Mamba-VAE")
    backbones = "Model,ood,AUROC\nResNet-18,svhn,.94\nViT-B,svhn,.95\n"
    assert read(tmp_path, backbones, name="msp.csv").results[0].detectors == ("msp",)


def test_equal_single_values_share_the_first_place(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("Model,recall\nA,.81\nB,.79\nC,.81\n")
    finding = analyze(path)[0]
    assert finding.answer.startswith("A and C share the best recall")
    assert finding.claims[0].text.startswith("A and C share the highest recall, 0.81")


def test_shares_of_the_samples_are_no_runs(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("method,top-50%,top-20%,top-10%,top-5%\nMSP,81,72,66,61\nKNN,91,82,76,71\n")
    assert not any(c.verdict == "holds" for c in analyze(path, columns="auroc=*")[0].claims)


def test_the_metric_that_most_detectors_have_decides(tmp_path):
    text = "method,ECE,NLL\nA,.03,.11\nB,.04,.12\nC,.02,-\n"
    found = read(tmp_path, text)
    assert found.results[0].metric == "calibration error" and len(found.results[0].frame) == 3
    assert any("NLL is given for 2 of 3" in note for note in found.notes)
    rows = "Metric,Ours,Best other,Other\nauroc,.83,knn,.72\naupr,.73,odin,.63\nfpr95,.51,msp,.6\n"
    asked(tmp_path, rows, "alone", "'Best other'")
    constant = "method,error_rate,AURC\nA,.22,.12\nB,.22,.08\n"
    assert read(tmp_path, constant).results[0].metric == "AURC"


def test_crossed_titles_become_columns(tmp_path):
    text = (
        "class,Easy FR-X,Easy Seg,Hard FR-X,Hard Seg\ncar,.84,.97,.78,.88\nbike,.74,.78,.49,.68\n"
    )
    asked(tmp_path, text, "detector=header", "detector=subheader", name="mAP.csv")
    found = read(tmp_path, text, "detector=subheader, map=value", name="mAP.csv").results[0]
    assert found.detectors == ("FR-X", "Seg") and len(found.frame) == 8


STACKED = "Prose that wraps.\nTable 3. Accuracy of four.\nMethod\nAccuracy\nF1\n"


def test_text_of_a_pdf_with_a_cell_per_line(tmp_path):
    cells = "One (ours)\n91.2 ± 0.3\n88.1\n# A + B\n90.4 ± 0.2\n87.0\nThree\n85.5 ± 0.1\n80.9\n"
    text = STACKED + cells + "More prose, which ends the table.\n"
    found = read(tmp_path, text, name="t.txt").results
    assert found[0].detectors == ("One (ours)", "A + B", "Three")
    assert numbers(found[0], "detector")["Three"] == pytest.approx(0.855)
    assert found[1].metric == "F1" and found[0].frame["spread"].notna().all()
    # A heading amid the rows, or a number too few: nobody knows what belongs to what.
    for broken in (cells.replace("Three", "5-fold\nThree"), cells.replace("88.1\n", "")):
        asked(tmp_path, STACKED + broken, "could not be split", name="t.txt")


LOG = """### {}
```py
lr: float = 1e-3
```
  val_auroc : 0.99
  test_auroc : {}% ± 0.4%

"""


def test_blocks_of_a_log_are_rows(tmp_path):
    text = LOG.format("Head + MSP", 84.2) + LOG.format("Head + KNN", 88.1)
    found = read(tmp_path, text, name="log.txt").results[0]
    assert numbers(found, "detector") == pytest.approx({"Head + MSP": 0.842, "Head + KNN": 0.881})
    with pytest.raises(UserError):  # of different things
        read(tmp_path, text.replace("val_auroc", "loss", 1), name="log.txt")


def test_checkmarks_name_the_rows_of_an_ablation(tmp_path):
    text = markdown("A,B,Accuracy", "✓,✓,84.2", "✓,,83.0", ",✗,78.3")
    found = read(tmp_path, text, name="t.md").results[0]
    assert numbers(found, "detector") == pytest.approx({"A + B": 0.842, "A": 0.83, "none": 0.783})


def test_texts_beside_nested_numbers_are_kept(tmp_path):
    content = {
        "first": {"model": "knn", "metrics": {"auroc": 0.9}},
        "second": {"model": "msp", "metrics": {"auroc": 0.8}},
    }
    found = read(tmp_path, json.dumps(content), name="t.json").results[0]
    assert numbers(found, "detector") == {"knn": 0.9, "msp": 0.8}


def test_remarks_in_cells():
    for text in ("0.42 ⚠️", "**0.42** ⚠️⚠️", "0.42 (5-shot)", "0.42 (math)", "0.42 ✗"):
        cell = read_cell(text)
        assert cell is not None and (cell.value, cell.spread) == (0.42, None)
    assert read_cell("0.42 (0.03 std)") is None or read_cell("0.42 (0.03 std)").spread == 0.03
    assert read_cell("0.42 (std 0.03)").spread == 0.03
    assert is_gap("N/A (no posterior)") and not is_gap("N/A (3.2)")


def test_titles_that_only_look_like_metrics(tmp_path):
    lines = "MSP,.82,.71,.65\nKNN,.91,.74,.62\n"
    top = read(tmp_path, "method,top-50%,top-10%,top-5%\n" + lines, "auroc=*").results[0]
    assert top.factor_names == ("top",) and len(top.frame) == 6
    asked(tmp_path, "method,DET,LLL,DE\n" + lines, "Nothing says what the numbers")
    named = read(tmp_path, "method,E-AURC,AURC,error_rate\n" + lines).results
    assert {part.metric for part in named} == {"E-AURC", "AURC", "error rate"}
    harness = (
        "Tasks,Filter,n-shot,Metric,Value\nt,strict,5,exact_match,.64\nt,loose,5,exact_match,.65\n"
    )
    asked(tmp_path, harness, "nothing to compare")


def test_a_row_of_gaps_is_no_header(tmp_path):
    text = markdown(
        "Model,MMLU,GSM8K,ARC", "old,33.3 (5-shot),—,—", "mid,65.0,52.5,29.9", "new,81.2,87.0,—"
    )
    assert read(tmp_path, text, "accuracy=*", name="t.md").results[0].detectors[0] == "old"


def test_headings_with_vs_are_no_pairs_of_sets(tmp_path):
    table = markdown("method,AUROC", "MSP,.8", "KNN,.9")
    text = "".join(
        f"## Panel {n} of each member's own confidence vs its own errors ({n})\n\n{table}\n"
        for n in "AB"
    )
    found = read(tmp_path, text, name="t.md").results[0]
    assert found.factor_names == ("section",) and "id" not in found.frame.columns


def test_all_tables_of_a_page_can_be_listed(tmp_path):
    text = "".join(
        f"## Part {n}\n\n{markdown(f'method,accuracy,x{n}', 'a,.1,.2', 'b,.2,.3')}\n"
        for n in range(9)
    )
    asked(tmp_path, text, "and 3 more", "#tables", name="t.md")
    assert "#9: Part 8" in asked(tmp_path, text, name="t.md", part="#tables")
