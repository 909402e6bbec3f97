"""What decides the verdict is read where names settle it, and asked where they do not."""

import re

import numpy as np
import pandas as pd
import pytest

from oodometer.errors import UserError
from oodometer.tables import read_results

RNG = np.random.default_rng(12)


def read(tmp_path, text, name="t.csv", columns=""):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_results(path, columns)


def grid(rows, columns, first="", low=60, high=95, cell="{:.2f}"):
    """A CSV of made-up numbers with these names at its edges."""
    lines = [",".join([first, *columns])]
    lines += [
        ",".join([row, *(cell.format(RNG.uniform(low, high)) for _ in columns)]) for row in rows
    ]
    return "\n".join(lines) + "\n"


def sets_of(results):
    sets = results.frame["id"].unique() if "id" in results.frame else []
    return len(results.detectors), len(sets), len([name for name in results.ood if name])


def kinds(results):
    return {factor.name: factor.kind for factor in results.factors}


TIME_SERIES = "classifier_name,archive_name,dataset_name,iteration,precision,accuracy,time\n"
TIME_SERIES += "".join(
    f"{c},UCR,{d},{i}.0,{RNG.uniform():.4f},{RNG.uniform():.4f},{RNG.uniform(10, 900):.3f}\n"
    for c in ("resnet", "fcn", "mlp")
    for d in ("Adiac", "Beef", "Car", "Yoga")
    for i in range(3)
)
SERIES = "filename,IFOREST,LOF,NORMA,dataset,ratio,average_anom_length,std_anom_length\n" + "".join(
    f"s{n}.out,{RNG.uniform():.6f},{RNG.uniform():.6f},{RNG.uniform():.6f},{d},"
    f"{RNG.uniform():.5f},{RNG.uniform(10, 90):.4f},{RNG.uniform(1, 30):.4f}\n"
    for n, d in enumerate(("ECG", "ECG", "ECG", "NAB", "NAB", "IOPS"))
)
MODELS = (("ViT-B", "openai", 149.6), ("ViT-B", "laion", 149.6), ("ViT-H", "dfn", 986.7),
          ("RN50", "yfcc", 102.0), ("RN50", "cc12m", 102.0))  # fmt: skip
CLIP = "name,pretrained,params (M),Average perf. on 4 datasets,ImageNet 1k,CIFAR-10,SVHN,KITTI\n"
for name, pretrained, size in MODELS:
    numbers = RNG.uniform(size=4).round(4)
    CLIP += f"{name},{pretrained},{size},{numbers.mean():.4f},{','.join(map(str, numbers))}\n"
KERNELS = (
    grid(["EH", "GH", "WL"], ["MUTAG", "NCI1", "PROTEINS", "BZR", "COX2"])
    + "SP," + ",".join(["0.0", "71.2", "0.0", "66.1", "70.3"]) + "\n"
)  # fmt: skip

READ = {  # table -> metric, detectors, data sets, outlier sets, factors
    "classifiers, data sets, iterations": (
        TIME_SERIES, "t.csv", "accuracy", (3, 4, 0), {"iteration": "repeat"}),
    "series within data sets": (SERIES, "t_aucroc.csv", "auroc", (3, 3, 0), {"filename": "part"}),
    "a model is a name and its pretraining": (CLIP, "t.csv", "value", (5, 4, 0), {}),
    "anomaly detectors above data sets": (
        grid(["ALOI", "glass", "letter", "wine"], ["PCA", "LOF", "KNN", "COPOD"], "dataset", .4, 1,
             "{:.4f}"), "x_auc.csv", "auroc", (4, 4, 0), {}),
    "a column called Data": (
        grid(["cardio", "glass", "letter", "musk"], ["Foo", "Bar", "Qux"], "Data", .4, 1, "{:.4f}"),
        "t_auroc.csv", "auroc", (3, 4, 0), {}),
    "data sets of graphs, and zeros of what did not finish": (
        KERNELS, "t_auroc.csv", "auroc", (4, 5, 0), {}),
    "outliers of one classifier": (
        grid(["MSP", "ODIN"], ["SVHN", "LSUN"], "Method"), "t.csv", "auroc", (2, 0, 2), {}),
    "numbered columns are runs": (
        grid(["Adiac", "Beef"], ["0", "1", "2"], "dataset").replace("dataset", "method,dataset")
        .replace("Adiac", "a,Adiac").replace("Beef", "b,Beef"), "accuracy.csv", "accuracy",
        (2, 2, 0), {"run": "repeat"}),
    "conditions in data sets": (
        "method,id_dataset,label_noise,AUROC\n" + "".join(
            f"{m},{d},{n},{RNG.uniform(60, 95):.2f}\n" for m in ("MDS", "VIM")
            for d in ("cifar10", "clothing1m") for n in ("clean", "N", "SU")),
        "t.csv", "auroc", (2, 2, 0), {"label_noise": "condition"}),
    "a test set beside its training set": (
        "method,dataset,ood_dataset,AUROC\nMSP,cifar10,svhn,91\nKNN,cifar10,svhn,92\n"
        "MSP,cifar100,svhn,81\nKNN,cifar100,svhn,83\n", "t.csv", "auroc", (2, 2, 1), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_names_settle_what_a_table_holds(tmp_path, name):
    text, file, metric, sizes, factors = READ[name]
    main = read(tmp_path, text, file).results[0]
    assert (main.metric, sets_of(main), kinds(main)) == (metric, sizes, factors)
    assert main.higher_is_better


def test_what_is_read_of_them(tmp_path):
    found = read(tmp_path, CLIP)
    assert found.results[0].detectors[:2] == ("ViT-B + openai", "ViT-B + laion")
    assert dict(found.columns)["Average perf. on 4 datasets"].startswith("not used")
    found = read(tmp_path, KERNELS, "t_auroc.csv")
    assert len(found.results[0].frame) == 18
    assert "AUROCs of exactly 0 count as missing (did not finish?): 2" in found.notes
    metrics = [part.metric for part in read(tmp_path, TIME_SERIES).results]
    assert metrics == ["accuracy", "precision"]


ROBUST = "Model ID,Paper,Clean accuracy,Robust accuracy\nA_1,P,93.1%,70.2%\nB_2,P,92.0%,71.5%\n"
QUANTITIES = "method,id_median,ood_median,id_iqr,ood_iqr\nMSP,.91,.82,.1,.2\nKNN,.93,.84,.2,.3\n"
ASKED = {  # table -> words of the question
    "neither axis is known": (grid(["Foo", "Bar"], ["Qux", "Baz"]), "the rows .* or the columns"),
    "no metric is named": (grid(["a", "b"], ["x", "y"], "method"), "what the numbers"),
    "several columns of names": (
        "alpha,beta,AUROC\nx,p,91\ny,p,92\nx,q,93\ny,q,94\n", "Which column names"),
    "two metrics of one kind": (ROBUST, "different metrics"),
    "unlike quantities": (QUANTITIES, "unlike quantities"),
    "results on training and test data": (
        "method,train_score,test_score\na,.9,.8\nb,.95,.7\n", "different parts of the data"),
    "AUROCs below one half": (
        grid(["MSP", "ODIN", "KNN"], ["SVHN", "LSUN", "DTD"], "method", 5, 40), "below 0.5"),
    "a column that numbers its lines": (
        "method,batch,AUROC\nMSP,1,91\nMSP,2,92\nKNN,1,93\nKNN,2,94\n", "'batch' numbers 2"),
    "levels of one set each": (
        "method,dataset,chunk,AUROC\n" + "".join(
            f"{m},{s},{s}{c},9{n}\n" for m in ("MSP", "KNN") for s in ("svhn", "lsun")
            for n, c in enumerate("xyz")), "part of the set"),
    "models that differ in something": (
        "model,flavour,accuracy\na,p,91\na,q,92\nb,r,93\nb,s,94\nc,t,95\n", "other models"),
    "columns with the same metric": (
        "method,AUROC (a),AUC (a)\nMSP,91,92\nKNN,93,94\n", "both hold auroc"),
    "numbered columns beside names": (
        grid(["Foo", "Bar"], ["0", "1", "2"], "what"), "numbered like runs"),
    "a setting is what varies": (
        "λ (weight),Best AUROC,Δ vs baseline\n0.0,.81,—\n0.01,.98,+17%\n0.1,.97,+16%\n",
        "No column names the detector"),
    "titles that may be detectors": (
        "Budget,Frozen AUPRC,Tuned AUPRC\n100%,.94,.95\n10%,.90,.87\n", "titles of columns"),
    "rows or titles that may be detectors": (
        "era,period,V1 F1,V2 F1\nold,day 1,.45,.98\nnew,day 2,.35,.97\nlast,day 3,.28,.96\n",
        "or the titles of columns"),
    "titles of two lines": (
        "class,Easy X,Easy Y,Hard X,Hard Y\n"
        "car,.84,.97,.78,.88\nbike,.74,.78,.49,.68\n", "'subheader'"),
    "forms of a metric on several sets": (
        "method,S1 PA-F1,S1 raw F1,S2 PA-F1,S2 raw F1\nA,.8,.1,.7,.2\nB,.6,.3,.9,.1\n",
        "different metrics"),
    "fractions beside percentages": (
        "score,new A,flag A,new B,flag B\nMSP,.90,13%,.87,38%\nKNN,.77,41%,.71,59%\n",
        "percentages"),
    "subsets of something": (
        "method,subset,family,AUPR\n" + "".join(
            f"{m},{s},{f},0.{n}{k}\n" for m in ("MSP", "KNN") for n, s in enumerate("pq", 4)
            for k, f in enumerate("wxyz")), "names the data sets"),
    "ranks alone": ("model,average rank\na,1.5\nb,2.5\nc,2.0\n", "such as a rank"),
    "kinds of data and no detector": (
        "sample_type,num_samples,error_rate\nclean,1990,.141\nlens dust,58,.396\n",
        "No column names the detector"),
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
def test_a_question_is_one_sentence_and_its_options_work(tmp_path, name):
    text, words = ASKED[name]
    with pytest.raises(UserError, match=words) as caught:
        read(tmp_path, text)
    question = str(caught.value)
    options = re.findall(r'--columns "([^"]*)"', question)
    assert options and "\n" not in question and len(question) < 500
    for option in options:
        assert read(tmp_path, text, columns=option).results, option


@pytest.mark.parametrize(
    ("title", "metric", "higher", "is_share"),
    [
        ("test_acc", "accuracy", True, True),
        ("Balanced accuracy", "balanced accuracy", True, True), ("F1-score", "F1", True, True),
        ("mIoU", "IoU", True, True), ("mAP", "mAP", True, True),
        ("ECE", "calibration error", False, True),
        ("Test NLL", "NLL", False, False), ("Brier score", "Brier score", False, False),
        ("RMSE", "RMSE", False, False), ("MAE", "MAE", False, False), ("R2", "R2", True, False),
        ("Error rate", "error rate", False, True), ("perplexity", "perplexity", False, False),
        ("MCC", "MCC", True, False), ("kappa", "kappa", True, False), ("BLEU", "BLEU", True, False),
        ("top5", "top-5 accuracy", True, True), ("top1_err", "error rate", False, True),
        ("Average precision", "AUPR", True, True), ("VUS-PR", "VUS-PR", True, True),
    ],
)  # fmt: skip
def test_known_metrics(tmp_path, title, metric, higher, is_share):
    (found,) = read(tmp_path, f"method,dataset,{title}\na,x,0.31\nb,x,0.42\n").results
    assert (found.metric, found.higher_is_better, found.is_share) == (metric, higher, is_share)
    assert found.frame["value"].tolist() == [0.31, 0.42]


def test_any_metric_with_its_direction(tmp_path):
    text = "method,dataset,regret,charm\na,x,3.5,120\nb,x,4.5,140\n"
    found = read(tmp_path, text, columns="lower=regret")
    assert (found.results[0].metric, found.results[0].higher_is_better) == ("regret", False)
    found = read(tmp_path, text, columns="higher=charm, ignore=regret").results[0]
    assert found.frame["value"].tolist() == [120, 140] and not found.is_share
    wide = grid(["a", "b"], ["x", "y"], "method", 110, 250)
    found = read(tmp_path, wide, columns="rmse=*").results[0]
    assert (found.metric, found.higher_is_better, len(found.frame)) == ("RMSE", False, 4)
    assert found.frame["value"].min() > 100


def test_a_percentage_and_a_fraction_are_units_of_shares_only(tmp_path):
    text = "method,dataset,accuracy,NLL\na,x,91.5,0.4\nb,x,92.5,1.4\n"
    accuracy, nll = read(tmp_path, text).results
    assert accuracy.frame["value"].tolist() == [0.915, 0.925]
    assert nll.frame["value"].tolist() == [0.4, 1.4]


@pytest.mark.parametrize(
    ("role", "kind"),
    [(kind, kind) for kind in ("repeat", "condition", "re_evaluation", "part")],
)
def test_the_kind_of_a_column_can_be_said(tmp_path, role, kind):
    text = "method,batch,AUROC\nMSP,1,91\nMSP,2,92\nKNN,1,93\nKNN,2,94\n"
    found = read(tmp_path, text, columns=f"{role}=batch").results[0]
    assert kinds(found) == {"batch": kind}


def test_means_spreads_and_runs_of_a_column_belong_together(tmp_path):
    text = "method,svhn_mean,svhn_std,lsun_mean,lsun_std,n\nMSP,91,.5,92,.4,5\nKNN,93,.3,94,.2,5\n"
    found = read(tmp_path, text).results[0]
    assert found.ood == ("svhn", "lsun") and set(found.frame["runs"]) == {5}
    assert found.frame["spread"].tolist() == pytest.approx([0.005, 0.003, 0.004, 0.002])


# Summaries.


def table(rows, columns=("SVHN", "LSUN", "DTD")):
    lines = [f"{name},{','.join(map(str, values))}" for name, values in rows.items()]
    return ",".join(["method", *columns]) + "\n" + "\n".join(lines) + "\n"


OWN = {"MSP": (91.2, 88.4, 86.1), "KNN": (93.1, 90.2, 84.4), "delta": (92.0, 89.5, 85.0)}


def test_a_detector_called_delta_with_numbers_of_its_own_stays(tmp_path):
    assert read(tmp_path, table(OWN)).results[0].detectors == ("MSP", "KNN", "delta")
    turned = pd.DataFrame(OWN, index=["SVHN", "LSUN", "DTD"]).to_csv(index_label="OOD data set")
    assert read(tmp_path, turned).results[0].detectors == ("MSP", "KNN", "delta")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("delta", (1.9, 1.8, -1.7)), ("Δ", (1.9, 1.8, -1.7)), ("Rank", (1, 2, 1)),
        ("Wins", (0, 5, 3)), ("Average", (92.1, 89.37, 85.17)), ("std", (0.4, 0.3, 0.2)),
        ("Mean over methods", (92.1, 89.37, 85.17)),
    ],
)  # fmt: skip
def test_rows_that_are_computed_from_others_are_left_out(tmp_path, name, values):
    found = read(tmp_path, table({**OWN, "delta": OWN["delta"], name: values} | {name: values}))
    assert name not in found.results[0].detectors
    assert any("left out" in note and name in note for note in found.notes)


def test_a_mean_is_found_by_its_arithmetic_though_its_name_says_nothing(tmp_path):
    means = [round(sum(values) / 3, 2) for values in OWN.values()]
    rows = {n: (*v, m) for (n, v), m in zip(OWN.items(), means, strict=True)}
    found = read(tmp_path, table(rows, ("SVHN", "LSUN", "DTD", "macroish")))
    assert found.results[0].ood == ("SVHN", "LSUN", "DTD")
    assert "means of all others were left out: macroish" in found.notes
    other = {n: (*v[:3], v[3] + 0.1) for n, v in rows.items()}
    found = read(tmp_path, table(other, ("SVHN", "LSUN", "DTD", "macroish")))
    assert found.results[0].ood == ("SVHN", "LSUN", "DTD", "macroish")


def test_a_method_that_happens_to_lie_near_the_mean_of_all_is_kept():
    """Results on coloured digits: methods differ by little more than the last decimal."""
    values = {
        "ERM": (71.7, 72.9, 10.0), "IRM": (72.5, 73.3, 10.2), "GroupDRO": (73.1, 73.2, 10.0),
        "Mixup": (72.6, 73.2, 10.1), "MLDG": (71.5, 73.1, 9.8), "MTL": (70.9, 72.8, 10.5),
        "ARM": (76.0, 74.0, 10.2),
    }  # fmt: skip
    frame = pd.DataFrame(
        [(name, *row) for name, row in values.items()], columns=["Method", "+90", "+80", "-90"]
    )
    found = read_results(frame, "accuracy=*")
    assert len(found.results[0].detectors) == 7


# Equal lines.


def test_equal_lines_without_a_run_column_are_results(tmp_path):
    text = "method,ood,auroc\n" + "".join(
        f"{d},svhn,{v}\n"
        for d, values in (("MSP", (91, 91, 90)), ("KNN", (93, 94, 94)))
        for v in values
    )
    found = read(tmp_path, text).results[0]
    assert len(found.frame) == 6 and kinds(found) == {"run": "repeat"}
    runs = found.frame.groupby("detector")["run"].agg(set)
    assert not runs["MSP"] & runs["KNN"]  # the order of lines pairs nothing


def test_the_same_table_again_and_again_numbers_runs_that_are_shared(tmp_path):
    lines = [f"{d},svhn,{v}\n" for v in (91, 92, 93) for d in ("MSP", "KNN")]
    found = read(tmp_path, "method,ood,auroc\n" + "".join(lines)).results[0]
    assert found.frame.groupby("run")["detector"].nunique().tolist() == [2, 2, 2]


def test_equal_lines_of_one_run_are_copies(tmp_path):
    text = "method,seed,auroc\nMSP,0,91\nMSP,0,91\nKNN,0,92\nMSP,1,91\nKNN,1,92\n"
    found = read(tmp_path, text)
    assert len(found.results[0].frame) == 4 and "duplicate rows were left out: 1" in found.notes


# Large and hostile.


def test_many_columns_and_long_names_take_seconds(tmp_path):
    wide = pd.DataFrame(
        RNG.uniform(0.5, 1, (3, 400)).round(4), columns=[f"set {n}x" for n in range(400)]
    )
    wide.insert(0, "method", ["MSP", "KNN", "x" * 100_000])
    found = read_results(wide, "auroc=*").results[0]
    assert len(found.frame) == 1200
    long_title = pd.DataFrame({"method": ["MSP", "KNN"], "auroc " * 20_000: [0.9, 0.8]})
    assert read_results(long_title, "higher=*").results[0].frame["value"].tolist() == [0.9, 0.8]


def test_a_word_of_settings_is_no_detector_beside_columns_of_models(tmp_path):
    text = "dataset,metric,mode,llama-7b,glm-9b,other-9b\n" + "".join(
        f"set{n},accuracy,{mode},{60 + n}.1,{65 + n}.2,{70 + n}.3\n"
        for n in range(3)
        for mode in ("gen", "fewshot")
    )
    with pytest.raises(UserError, match=r"rows \(gen, fewshot, …\) or the columns \(llama-7b"):
        read(tmp_path, text)
    found = read(tmp_path, text.replace("other-9b", "gemma-9b")).results[0]
    assert found.detectors == ("llama-7b", "glm-9b", "gemma-9b")


def test_a_setting_of_the_size_of_the_results_is_a_condition(tmp_path):
    text = "Dataset,Sparsity,Dense,Pruned,Pruned+FT,Pruned+KD\n" + "".join(
        f"{'CIFAR-10' if n < 3 else 'CIFAR-100'},{s},0.94{n},0.43{n},0.94{n + 1},0.95{n}\n"
        for n, s in enumerate((0.5, 0.7, 0.85) * 2)
    )
    found = read(tmp_path, text, "t.csv", "accuracy=*").results[0]
    assert sorted(set(found.frame["detector"])) == ["Dense", "Pruned", "Pruned+FT", "Pruned+KD"]
    assert kinds(found) == {"Sparsity": "condition"}


def test_error_detection_is_a_task_and_not_an_error(tmp_path):
    text = "model,translation_error_detection,snarks\na,31.2,40.1\nb,52.3,45.6\n"
    found = read(tmp_path, text, "t.csv", "accuracy=*").results[0]
    assert len(found.frame) == 4


def test_the_kind_of_each_model_is_not_where_it_was_measured(tmp_path):
    text = "Model,Domain,Overall SDR\nx,waveform,5.3\ny,spectrogram,6.2\nz,waveform,7.1\n"
    found = read(tmp_path, text).results[0]
    assert found.metric == "SDR"
    assert all(
        len(set(found.frame[column])) == 1 for column in ("id", "ood") if column in found.frame
    )


def test_a_metric_behind_the_name_of_a_set_is_one_whatever_stands_beside_it(tmp_path):
    sets = ("KDD-TSAD", "NASA-MSL", "NASA-SMAP")
    text = ",".join(["Model", *(f"{name} {m}" for name in sets for m in ("P", "R", "F1"))])
    lines = [
        "AER,.41,.62,.49,.55,.63,.59,.78,.81,.79",
        "TadGAN,.12,.33,.18,.46,.63,.53,.60,.69,.64",
    ]
    found = read(tmp_path, "\n".join([text, *lines])).results[0]
    assert found.metric == "F1" and len(found.frame) == 6


def test_the_error_in_brackets_beside_an_accuracy_is_no_spread(tmp_path):
    text = "Model,Prec@1 (Err)\na,82.240 (17.760)\nb,81.074 (18.926)\n"
    found = read(tmp_path, text).results[0]
    assert found.metric == "accuracy" and "spread" not in found.frame


def test_names_of_metrics_are_no_detectors(tmp_path):
    table = "|dataset|Err|\n|---|---|\n|dev_clean|4.9|\n|dev_other|9.1|\n|test_clean|5.0|\n"
    page = "".join(f"### {metric}\n\n{table}\n" for metric in ("WER", "CER", "TER"))
    with pytest.raises(UserError, match="nothing to compare"):
        read(tmp_path, page, "page.md")
