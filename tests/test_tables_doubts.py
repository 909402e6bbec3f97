"""Tables that a hasty reader gets wrong: each is read as it is meant, or asked about."""

import json

import pandas as pd
import pytest

from oodometer import analyze
from oodometer.errors import UserError
from oodometer.tables import described, read_results


def read(tmp_path, content, name="t.csv", columns=""):
    path = tmp_path / name
    path.write_text(content)
    return read_results(path, columns)


def kinds(reading):
    return {factor.name: factor.kind for factor in reading.results[0].factors}


def test_flags_and_sizes_of_data_are_no_detectors(tmp_path):
    lines = [
        "Data,#Samples,Outlier Perc,IForest,LOF,HBOS,KNN,is_seq,has_point",
        "glass,214,4.2056,0.70,0.83,0.71,0.82,1,0",
        "wine,129,7.7512,0.81,0.88,0.76,0.87,1,1",
        "musk,3062,3.1679,0.99,0.56,0.98,0.80,1,1",
        "letter,1600,6.2521,0.62,0.86,0.58,0.87,1,0",
    ]
    found = read(tmp_path, "\n".join(lines), "roc.csv").results[0]
    assert set(found.detectors) == {"IForest", "LOF", "HBOS", "KNN"}
    assert found.metric == "auroc" and len(found.frame) == 16


def test_a_tuple_as_the_name_of_a_line_is_several_things(tmp_path):
    lines = [f"\"('{d}', 0.0, {s})\",.{7 + s}1,.{6 + s}2" for d in ("pima", "wbc") for s in (1, 2)]
    text = "\n".join([",IForest,LOF", *lines])
    with pytest.raises(UserError, match=r"numbers 2 levels.*repeat=column 1\.3") as asked:
        read(tmp_path, text, "auroc.csv")
    assert "condition=column 1.3" in str(asked.value)
    found = read(tmp_path, text, "auroc.csv", "repeat=column 1.3")
    assert set(found.results[0].frame["id"]) == {"pima", "wbc"}
    assert kinds(found) == {"column 1.3": "repeat"}


def test_lines_that_names_tell_apart_are_asked_about(tmp_path):
    head = "Method,Backbone,Lr schd,mIoU,mIoU(ms+flip)\n"
    lines = "A,R-50,40000,77.8,79.1\nA,R-101,40000,78.3,79.7\nA,R-50,80000,78.5,79.8\n"
    text = head + lines + "B,R-101,80000,79.4,\n"
    with pytest.raises(UserError, match=r"differ in 'Backbone' \(R-50, R-101") as asked:
        read(tmp_path, text)
    assert "detector=Method+Backbone" in str(asked.value)
    found = read(tmp_path, text, columns="detector=Method+Backbone")
    assert [results.metric for results in found.results] == ["IoU", "ms+flip IoU"]


def test_results_on_test_data_count(tmp_path):
    rows = [f"{m},{s},{v}" for m in "abc" for s, v in (("dev", 0.1), ("test-clean", 0.2),
                                                      ("test-other", 0.4))]  # fmt: skip
    text = "\n".join(["experiment,split,wer", *rows])
    found = read(tmp_path, text)
    assert set(found.results[0].frame["split"]) == {"test-clean", "test-other"}
    assert kinds(found) == {"split": "re_evaluation"}  # the same models, on other data
    assert any("split dev were left out" in note for note in found.notes)
    everything = read(tmp_path, text, columns="re_evaluation=split")
    assert len(everything.results[0].frame) == 9


def test_a_mean_beside_several_results_is_a_summary(tmp_path):
    text = "Model,Home F1,Ulm F1,Graz F1,Mean Away F1\na,.9,.5,.7,.6\nb,.8,.7,.8,.75\n"
    assert set(read(tmp_path, text).results[0].frame["id"]) == {"Home", "Ulm", "Graz"}


def test_the_auroc_of_an_attack_is_asked_about(tmp_path):
    text = "method,dataset,mia_auroc\nretrain,a,.51\nforget,a,.6\n"
    with pytest.raises(UserError, match=r"an attack.*lower=mia_auroc"):
        read(tmp_path, text)
    assert not read(tmp_path, text, columns="lower=mia_auroc").results[0].higher_is_better


def test_ap_beside_auroc_is_its_metric_and_no_condition(tmp_path):
    rows = [f"{d},{m},{a},{p}" for d in ("x", "y", "v", "w") for m, a, p in (("m1", 1.0, 0.5),
                                                                  ("m2", 0.75, 1.0))]  # fmt: skip
    found = read(tmp_path, "\n".join(["dataset,detector,true_auc,true_ap", *rows]))
    assert [results.metric for results in found.results] == ["auroc", "AUPR"]
    assert kinds(found) == {} and set(found.results[0].frame["ood"]) == {""}


def test_ranks_and_negative_numbers_are_asked_about_and_keep_their_unit(tmp_path):
    rows = [f"{kind},t{n},{a},{b}" for n, (kind, a, b) in enumerate(
        [("binary", "1 (3)", 2), ("binary", 2, 1), ("multi", 1, 3), ("multi", 3, 2)])]  # fmt: skip
    text = "\n".join(["type,task,autox,autoy", *rows])
    with pytest.raises(UserError, match=r"Nothing says what the numbers in 'autox', 'autoy'"):
        read(tmp_path, text)
    found = read(tmp_path, text, columns="lower=*").results[0]
    assert sorted(found.frame["value"]) == [1, 1, 1, 2, 2, 2, 3, 3]
    assert "spread" not in found.frame.columns and set(found.frame["id"]) == {
        "t0",
        "t1",
        "t2",
        "t3",
    }


def test_forms_of_a_metric_are_not_runs_of_it(tmp_path):
    head = "| Metric | Ours v1 | Ours v2 |\n|---|---|---|\n"
    rows = "| AUC-ROC | .66 | .67 |\n| PA-F1 | .61 | .62 |\n| Event-F1 | .41 | .42 |\n"
    text = f"## One\n\n{head}{rows}\n## Two\n\n{head}{rows.replace('.6', '.7')}"
    found = read(tmp_path, text, "t.md")
    assert {r.metric for r in found.results} == {"auroc", "pa F1", "event F1"}
    assert kinds(found) == {"section": "condition"}


def test_transfers_between_domains_are_not_aurocs(tmp_path):
    text = "Method,A -> W,W -> D,D -> A\nMCD,.85,.99,.61\nDANN,.81,.95,.54\n"
    with pytest.raises(UserError, match="Nothing says what the numbers"):
        read(tmp_path, text)
    found = read(tmp_path, text, columns="accuracy=*")
    assert len(found.results[0].frame) == 6  # W -> D is not weight decay


def test_a_question_repeats_what_was_said(tmp_path):
    text = "one,two,x,y\na,c,1.5,2.5\nb,d,1.7,2.2\n"
    with pytest.raises(UserError, match=r'--columns "higher=\*, detector=one"'):
        read(tmp_path, text, columns="higher=*")


def test_scales_of_data_sets_are_noted(tmp_path):
    text = "model,dataset,rmse\na,power,402.3\nb,power,415.2\na,glass,0.0016\nb,glass,0.0015\n"
    assert "sets with large numbers decide its mean" in read(tmp_path, text).notes[0]


def test_tables_of_restructured_text(tmp_path):
    text = """Benchmarks
==========

Office accuracy
^^^^^^^^^^^^^^^

===========  ======  ====  ======  ====  ======
Methods      Origin  Avg   A → W   W → D D → A
Source Only  75.6    83.7\t78.3\t99.4\t73.4
DANN         43.4    66.0  60.0    71.0  67.0
AFN          /       87.6\t87.8\t95.0\t80.0
===========  ======  ====  ======  ====  ======
"""
    first = read(tmp_path, text, "t.rst", "accuracy=*").results[0]
    assert first.detectors == ("Source Only", "DANN", "AFN") and first.metric == "accuracy"
    assert first.frame["value"].tolist()[:3] == pytest.approx([0.783, 0.60, 0.878])
    assert set(first.frame["id"]) == {"A → W", "W → D", "D → A"}  # not as others report it


def test_wrapped_lines_and_pairs_and_numbers_of_numpy(tmp_path):
    lines = [{"model": m, "dataset": d, "accuracy": a} for m, d, a in
             [("a", "x", 0.9), ("b", "x", 0.8), ("a", "y", 0.7), ("b", "y", 0.6)]]  # fmt: skip
    found = read(tmp_path, json.dumps({"data": {"values": lines}}), "t.json")
    assert len(found.results[0].frame) == 4
    text = "Method,Train/Test Accuracy\na,99.9% / 96.0%\nb,99.8% / np.float64(95.5)\n"
    accuracy = read(tmp_path, text).results[0]
    assert accuracy.metric == "accuracy" and max(accuracy.frame["value"]) == pytest.approx(0.96)
    names = dict(described(read(tmp_path, text)))
    assert "train accuracy" in names["other metrics"]


def test_conditions_of_several_unknown_sets_are_not_as_many_outlier_sets(tmp_path):
    path = tmp_path / "auroc.csv"
    path.write_text(
        "method,C10 clean,C10 flipped,Clo clean,Clo flipped,Clo drawn\n"
        "MSP,94.1,88.7,82.3,76.2,75.1\nEnergy,93.8,88.9,83.3,75.7,74.9\nKNN,93.3,89.1,82.8,74,73\n"
    )
    with pytest.raises(UserError) as question:
        read_results(path)
    assert "'C10 clean' and 'Clo clean' seem to hold a data set and a condition" in str(
        question.value
    )
    assert len(read_results(path, columns="ood=*").results[0].frame) == 15
    (factor,) = read_results(path, columns="condition=*").results[0].factors
    assert factor.kind == "condition"


def test_files_that_call_their_names_otherwise_are_not_one_table(tmp_path):
    (tmp_path / "a.csv").write_text("detector,ood,AUROC\nMSP,SVHN,0.9\nKNN,SVHN,0.8\n")
    (tmp_path / "b.csv").write_text("method,AUROC\nMSP,0.7\nEnergy,0.6\n")
    with pytest.raises(UserError, match="are detector, ood in 'a.csv', but method in 'b.csv'"):
        read_results(tmp_path)
    (tmp_path / "b.csv").write_text("detector,ood,AUROC\nMSP,LSUN,0.7\nKNN,LSUN,0.6\n")
    assert len(read_results(tmp_path).results[0].frame) == 4


def test_a_role_behind_its_column_is_told_the_right_way_round(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("method,batch,AUROC\nMSP,1,0.9\nKNN,1,0.8\nMSP,2,0.9\nKNN,2,0.7\n")
    with pytest.raises(UserError, match="'batch' is a column: write repeat=batch"):
        read_results(path, columns="batch=repeat")
    with pytest.raises(UserError, match="Unknown role of a column 'batc'"):
        read_results(path, columns="batc=repeat")


def test_series_whose_files_name_their_data_set_are_parts_of_it(tmp_path):
    files = ["001_Rovers_id_1_tr_50.csv", "002_Rovers_id_2_tr_60.csv", "003_Mills_id_1_tr_9.csv"]
    numbers = [(0.4, 0.6), (0.5, 0.3), (0.7, 0.2)]
    wide = [f"{file},{a},{b}" for file, (a, b) in zip(files, numbers, strict=True)]
    found = read(tmp_path, "\n".join(["file,IForest,LOF", *wide]), "VUS-PR.csv")
    assert set(found.results[0].frame["id"]) == {"Rovers", "Mills"}
    assert kinds(found) == {"file": "part"}
    long = [f"{f},{m},{v}" for f, pair in zip(files, numbers, strict=True)
            for m, v in zip(("IForest", "LOF"), pair, strict=True)]  # fmt: skip
    same = read(tmp_path, "\n".join(["file,model,VUS-PR", *long]))
    assert kinds(same) == {"file": "part"} and set(same.results[0].frame["id"]) == {
        "Rovers",
        "Mills",
    }
    (option,) = [note for note in found.notes if "id=file" in note]
    assert "series of 2 data sets" in option
    apart = read(tmp_path, "\n".join(["file,IForest,LOF", *wide]), "VUS-PR.csv", "id=file")
    assert len(set(apart.results[0].frame["id"])) == 3
    text = "\n".join(["file,IForest,LOF", *wide]).replace("Rovers_id_2", "Crabs_id_2")
    assert set(read(tmp_path, text, "VUS-PR.csv").results[0].frame["id"]) == {
        name.replace("Rovers_id_2", "Crabs_id_2") for name in files
    }


def test_image_and_pixel_auroc_of_crossed_titles_are_two_metrics(tmp_path):
    text = (
        "Class,Ava Image AUROC,Bib Image AUROC,Ava Pixel AUROC,Bib Pixel AUROC\n"
        "nut,.91,.81,.97,.98\nbolt,.92,.85,.96,.99\ncog,.95,.83,.94,.97\n"
    )
    with pytest.raises(UserError, match=r"different metrics.*higher=Image auroc"):
        read(tmp_path, text)
    found = read(tmp_path, text, columns="higher=Image auroc").results[0]
    assert set(found.frame["detector"]) == {"Ava", "Bib"} and len(found.frame) == 6
    assert found.frame["value"].max() == 0.95


def test_k_of_a_ranking_is_a_re_evaluation_and_that_of_neighbors_a_condition(tmp_path):
    rows = [f"{m},x,{k},{0.3 + 0.01 * k + n / 50}" for n, m in enumerate("ab") for k in (1, 5, 10)]
    assert kinds(read(tmp_path, "\n".join(["model,dataset,k,ndcg", *rows]))) == {
        "k": "re_evaluation"
    }
    assert kinds(read(tmp_path, "\n".join(["model,dataset,k,auroc", *rows]))) == {"k": "condition"}


def test_numbers_in_titles_are_no_runs_where_a_title_calls_them_steps(tmp_path):
    for title, numbers in (("Model / Epoch", "1,2,3"), ("learning step", "10,50,100")):
        text = f"{title},{numbers}\nours,.83,.68,.60\nlwf,.82,.60,.50\n"
        found = read(tmp_path, text, columns=f"detector={title}, accuracy=*")
        assert kinds(found) == {title.split()[-1].casefold(): "re_evaluation"}


def test_numbers_in_titles_that_nothing_explains_are_asked_about(tmp_path):
    text = "Method,20,40,60\nours,.83,.68,.60\nlwf,.82,.60,.50\n"
    with pytest.raises(UserError, match=r"20, 40, … .*condition=\*.*repeat=\*.*id=\*"):
        read(tmp_path, text, columns="accuracy=*")
    said = {"condition": {"condition": "condition"}, "repeat": {"run": "repeat"}, "id": {}}
    for role, factors in said.items():
        assert kinds(read(tmp_path, text, columns=f"accuracy=*, {role}=*")) == factors
    alone = "\n".join(text.replace("Method", "").splitlines()[:2])  # one line, without a title
    with pytest.raises(UserError, match="nothing to compare"):
        read(tmp_path, alone, columns="accuracy=*")


def test_rows_called_all_classes_are_summaries(tmp_path):
    rows = ["nut,.9,.8", "bolt,.7,.6", "All metal classes,.8,.7", "All classes,.8,.71"]
    found = read(tmp_path, "\n".join(["Category,PaDiM,SPADE", *rows]), columns="auroc=*")
    frame = found.results[0].frame
    assert {*frame.get("id", []), *frame["ood"]} - {"", "outliers"} == {"nut", "bolt"}


def test_stated_means_that_are_wrong_are_pointed_out(tmp_path):
    lines = ["Method,SVHN AUROC,LSUN AUROC,Textures AUROC,Avg. AUROC",
             "MSP,91.2,88.0,85.1,88.1", "Energy,92.3,90.0,86.1,89.5",
             "KNN,95.1,91.4,93.3,99.3", "ViM,90.0,91.0,92.0,91.0"]  # fmt: skip
    (note,) = [n for n in read(tmp_path, "\n".join(lines)).notes if "is not the mean" in n]
    assert note.endswith("KNN 99.3 instead of 93.27")
    columns = [row.split(",") for row in lines]
    turned = "\n".join(map(",".join, zip(*columns, strict=True)))
    (turned_note,) = [n for n in read(tmp_path, turned).notes if "is not the mean" in n]
    assert turned_note.endswith("KNN 99.3 instead of 93.27")


def test_means_of_something_else_are_not_called_wrong(tmp_path):
    lines = ["Method,SVHN AUROC,LSUN AUROC,Textures AUROC,Avg. AUROC", "MSP,91.2,88.0,85.1,80.1",
             "Energy,92.3,90.0,86.1,89.5", "KNN,95.1,91.4,93.3,84.3"]  # fmt: skip
    assert not [n for n in read(tmp_path, "\n".join(lines)).notes if "is not the mean" in n]


def test_folds_in_names_of_data_sets_are_folds(tmp_path):
    """Each data set has a number of its own before them, which is no level of anything."""
    names = {"adult": 7592, "credit": 31, "ilpd": 9971}
    lines = [
        f"openml__{name}__{number}_fold_{fold},{model},{0.7 + 0.1 * (model == 'MLP')}{fold}"
        for name, number in names.items()
        for fold in range(3)
        for model in ("MLP", "SVM")
    ]
    text = "\n".join(["dataset_fold_id,alg_name,AUC", *lines])
    found = read(tmp_path, text)
    assert kinds(found) == {"fold": "repeat"}
    assert set(found.results[0].frame["id"]) == set(names)


def test_widths_of_intervals_beside_results_are_no_results(tmp_path):
    lines = ["method,mini_1shot,mini_1shot_ci,mini_5shot,mini_5shot_ci",
             "ProtoNet,49.42,0.78,68.20,0.66", "MAML,48.70,1.84,63.11,0.92"]  # fmt: skip
    found = read(tmp_path, "\n".join(lines), columns="accuracy=*").results[0]
    assert sorted(found.frame["value"]) == pytest.approx([0.487, 0.4942, 0.6311, 0.682])


def test_numbers_of_labels_are_no_kinds_of_labels(tmp_path):
    """More labels may be added to the same run: what is decided depends on it."""
    values = {"random": 0.6, "badge": 0.66, "entropy": 0.61}
    lines = [f"{m},{n},{s},{v + 0.05 * i + 0.002 * s}" for m, v in values.items()
             for i, n in enumerate((1000, 2000, 4000)) for s in range(2)]  # fmt: skip
    with pytest.raises(UserError, match=r"what 'labels' is.*re_evaluation=labels"):
        analyze(pd.DataFrame([line.split(",") for line in lines],
                             columns=["strategy", "labels", "seed", "accuracy"]))  # fmt: skip


def test_a_method_called_like_a_metric_is_asked_about(tmp_path):
    lines = ["Source,Target,DANN,CDAN,MCC", "Art,Clipart,45.6,50.7,55.1", "Art,Real,70.1,76.0,79.5",
             "Clipart,Art,47.0,57.6,63.3", "Clipart,Real,60.9,70.0,75.8"]  # fmt: skip
    with pytest.raises(UserError, match=r"Is 'MCC' compared with DANN, CDAN") as asked:
        read(tmp_path, "\n".join(lines))
    option = "detector=*, higher=DANN, higher=CDAN, higher=MCC"
    assert option in str(asked.value)
    found = read(tmp_path, "\n".join(lines), columns=option).results[0]
    assert found.detectors == ("DANN", "CDAN", "MCC")
    metric = read(tmp_path, "\n".join(lines), columns="MCC=MCC, ignore=DANN, ignore=CDAN")
    assert metric.results[0].metric == "MCC"


def test_names_of_metrics_in_one_title_may_have_two_words(tmp_path):
    lines = ["Method,CIFAR-10 NLL,CIFAR-10 Cal. Error,CIFAR-10-C NLL / Cal. Error",
             "Plain,0.94,0.032,3.21 / 0.105", "Ensemble,0.86,0.018,2.82 / 0.047"]  # fmt: skip
    metrics = [results.metric for results in read(tmp_path, "\n".join(lines)).results]
    assert sorted(metrics) == ["NLL", "calibration error"]
