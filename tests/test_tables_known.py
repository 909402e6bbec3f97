"""Tables whose right reading is known: what a generator of tables found to be read wrongly."""

import itertools

import pytest

from oodometer.errors import UserError
from oodometer.protocols.common.cases import cases_of
from oodometer.tables import read_results


def table(tmp_path, head, cells, name="t.csv"):
    """Write a table with a column of AUROCs, and return its path."""
    rows = [f"{','.join(map(str, cell))},0.{7 + n % 2}{13 * n % 89:02d}" for n, cell in
            enumerate(cells)]  # fmt: skip
    return written(tmp_path, "\n".join([f"{head},AUROC", *rows]), name)


def written(tmp_path, text, name="t.csv"):
    path = tmp_path / name
    path.write_text(text + "\n", encoding="utf-8")
    return path


def main(path, columns=""):
    return read_results(path, columns).results[0]


def kinds(path, columns=""):
    return {factor.name: factor.kind for factor in main(path, columns).factors}


CELLS = [*itertools.product(["MSP", "KNN", "ViM"], ["SVHN", "iSUN"], [1, 2, 3])]


@pytest.mark.parametrize("title", ["host", "Notes", "git commit message", "log"])
def test_circumstances_of_runs_are_no_conditions(tmp_path, title):
    lines = [(*cell, ("", "b b")[n % 2]) for n, cell in enumerate(CELLS)]
    assert kinds(table(tmp_path, f"method,ood,seed,{title}", lines)) == {"seed": "repeat"}


@pytest.mark.parametrize("incident", ["/exp/{}/out.json", "2024-03-01 10:{:02d}:11"])
def test_a_noise_rate_beside_paths_is_a_condition(tmp_path, incident):
    cells = itertools.product(["MSP", "KNN"], ["SVHN", "iSUN"], ["0.0", "0.4"], [1, 2])
    lines = [(*cell, incident.format(n)) for n, cell in enumerate(cells)]
    found = kinds(table(tmp_path, "method,ood,noise_rate,seed,where", lines))
    assert found == {"noise_rate": "condition", "seed": "repeat"}
    lines = [(*cell[:3], cell[3], f"n{n % 2}") for n, cell in enumerate(lines)]
    assert "run" not in kinds(table(tmp_path, "method,ood,noise_rate,seed,path", lines))


def test_a_patient_is_no_name_for_a_set_on_a_machine(tmp_path):
    cells = itertools.product(["LOF", "PCA"], ["x", "y", "z"], [1, 2])
    lines = [(d, s, f"{s}{p}", f"node{p}") for d, s, p in cells]
    assert kinds(table(tmp_path, "method,dataset,participant_id,host", lines)) == {
        "participant_id": "part"
    }


def test_what_models_were_pretrained_on_is_no_data_set(tmp_path):
    rows = "KNN,ImageNet,.91,.82\nKNN,none,.81,.72\nMSP,ImageNet,.83,.74\nMSP,none,.73,.64"
    path = written(tmp_path, f"method,pretraining,SVHN AUROC,iSUN AUROC\n{rows}")
    assert kinds(path) == {"pretraining": "condition"}


ROWS = {"MSP": (0.91, 0.72, 0.83), "KNN": (0.84, 0.75, 0.86), "ViM": (0.87, 0.78, 0.80)}


@pytest.mark.parametrize(
    ("name", "numbers", "is_detector"),
    [
        ("Best", (0.91, 0.78, 0.86), False),
        ("median", (0.87, 0.75, 0.83), False),
        ("Delta", (0.07, -0.03, -0.03), False),
        ("rank", (1, 2, 1), False),
        ("delta", (0.93, 0.81, 0.88), True),
        ("delta", (0.81, 0.70, 0.79), True),
        ("best", (0.92, 0.70, 0.85), True),
    ],
)
def test_arithmetic_tells_summaries_from_detectors(tmp_path, name, numbers, is_detector):
    rows = ROWS | {name: numbers}
    lines = [",".join([detector, *map(str, cells)]) for detector, cells in rows.items()]
    path = written(tmp_path, "\n".join(["method,SVHN,iSUN,DTD", *lines]), "auroc.csv")
    assert (name in main(path).detectors) == is_detector
    columns = [",".join([s, *map(str, cells)]) for s, *cells in
               zip(["SVHN", "iSUN", "DTD"], *rows.values(), strict=True)]  # fmt: skip
    path = written(tmp_path, "\n".join([",".join(["dataset", *rows]), *columns]), "auroc.csv")
    assert (name in main(path).detectors) == is_detector


def test_words_of_statistics_in_names_of_detectors(tmp_path):
    head = "dataset,MSP,ViM,mean-teacher,rank-feat"
    text = f"{head}\nSVHN,.81,.85,.83,.84\niSUN,.71,.75,.77,.76"
    assert len(main(written(tmp_path, text, "auroc.csv")).detectors) == 4
    path = written(tmp_path, text.replace("mean-teacher", "max-cosine"), "auroc.csv")
    with pytest.raises(UserError, match=r'auroc=\*"\), or .*ignore=max-cosine'):
        main(path)
    assert "max-cosine" in main(path, "auroc=*").detectors
    assert len(main(path, "ignore=max-cosine").detectors) == 3


@pytest.mark.parametrize("title", ["ROC-AUC", "roc_auc", "pr_auc", "fpr@95tpr", "F1-score",
                                   "bal. acc", "error_rate"])  # fmt: skip
@pytest.mark.parametrize("form", ["{s}.{m}", "{m}-{s}"])
def test_metrics_in_titles_leave_the_names_of_sets(tmp_path, title, form):
    sets = ["SVHN", "ssb-hard", "iSUN"]
    head = ",".join(["method", *(form.format(s=s, m=title) for s in sets)])
    found = main(written(tmp_path, f"{head}\nMSP,.61,.65,.63\nKNN,.71,.75,.77"))
    assert len(found.frame) == 6
    names = found.ood if len(found.ood) > 1 else found.ids
    assert sorted(name.replace(" ", "-") for name in names) == sorted(sets)


@pytest.mark.parametrize("repeat", ["run_id", "random_seed", "seed"])
def test_runs_in_titles_of_sets_are_runs(tmp_path, repeat):
    titles = [f"auroc_{s}_{repeat}{n}" for s in ("svhn", "isun") for n in (1, 2)]
    path = written(tmp_path, f"method,{','.join(titles)}\nMSP,.6,.7,.8,.9\nKNN,.5,.8,.6,.7")
    assert list(kinds(path).values()) == ["repeat"] and set(main(path).ood) == {"svhn", "isun"}


def test_a_form_that_all_titles_share_is_no_part_of_names(tmp_path):
    text = "method,macro F1 run 1,macro F1 run 2\nA,.61,.65\nB,.71,.75"
    assert kinds(written(tmp_path, text)) == {"run": "repeat"}
    text = text.replace("run 1", "x").replace("run 2", "y")
    assert set(main(written(tmp_path, text)).ids) == {"x", "y"}


def test_two_header_lines_above_plus_minus(tmp_path):
    text = ",SVHN,iSUN\nmethod,AUROC,AUROC\nMSP,91.2 +/- 0.3,88.1 +/- 0.2\nKNN,93 +/- 0.2,86 +/- 1"
    found = main(written(tmp_path, text))
    assert set(found.ood) == {"SVHN", "iSUN"} and found.frame["spread"].notna().all()


def test_error_is_a_metric_and_no_gap(tmp_path):
    rows = [f"{m},{s},error,0.{n}5" for n, (m, s) in enumerate(itertools.product("AB", "xyz"))]
    found = main(written(tmp_path, "\n".join(["model,dataset,metric,value", *rows])))
    assert found.metric == "error rate" and not found.higher_is_better


def test_a_file_that_names_balanced_accuracy_holds_it(tmp_path):
    text = "network,test_set,trial 1,trial 2\nA,x,.91,.92\nB,x,.81,.83\nA,y,.71,.70\nB,y,.61,.60"
    assert main(written(tmp_path, text, "balanced_accuracy.csv")).metric == "balanced accuracy"
    with pytest.raises(UserError, match="Nothing says what the numbers"):
        main(written(tmp_path, text))  # a test set is no outlier set: these may be anything


def test_the_other_column_beside_runs_is_asked_about(tmp_path):
    text = "method,{},run 1,run 2\nMSP,a,.91,.92\nMSP,b,.81,.83\nKNN,a,.71,.70\nKNN,b,.61,.60"
    path = written(tmp_path, text.format("architecture"), "auroc.csv")
    assert kinds(path) == {"architecture": "condition", "run": "repeat"}
    path = written(tmp_path, text.format("augmentation"), "auroc.csv")
    with pytest.raises(UserError, match="id=augmentation.*condition=augmentation"):
        main(path)


def test_one_of_two_titles_of_architectures_is_asked_about(tmp_path):
    cells = itertools.product(["DANN", "Ours"], ["resnet18", "vit"], ["x", "y"])
    rows = [f"{n},{a},{s},.{70 + k}" for k, (n, a, s) in enumerate(cells)]
    path = written(tmp_path, "\n".join(["network,architecture,dataset,accuracy", *rows]))
    with pytest.raises(UserError, match="detector=architecture.*detector=network"):
        main(path)


def test_a_question_beside_known_sets_offers_the_columns(tmp_path):
    cells = itertools.product(["sgd", "adam"], ["x", "y"], [1, 2])
    rows = [f"{o},{s},{r},.{70 + k},.{81 + k}" for k, (o, s, r) in enumerate(cells)]
    head = "optimizer,dataset,run,Argus,Orion"
    path = written(tmp_path, "\n".join([head, *rows]), "accuracy.csv")
    with pytest.raises(UserError, match=r"detector=optimizer.*detector=\*"):
        main(path)
    assert kinds(path, "detector=*") == {"optimizer": "condition", "run": "repeat"}


def test_corruptions_of_repeated_runs_are_no_more_runs(tmp_path):
    cells = itertools.product(["A", "B"], ["CIFAR-10-C"], ["fog", "snow"], [1, 3], [1, 2, 3])
    path = table(tmp_path, "model,dataset,corruption,severity,seed", cells)
    assert kinds(path) == {
        "corruption": "re_evaluation", "severity": "re_evaluation", "seed": "repeat"
    }  # fmt: skip
    assert len(cases_of(main(path)).names) == 3
    # Nor is any a data set that models were trained on.
    cells = itertools.product(["ResNet-18", "ViT-B"], ["fog", "snow", "frost"], [1, 2])
    path = written(tmp_path, "\n".join(["model,corruption,seed,accuracy", *(
        f"{m},{c},{s},0.{71 + n}" for n, (m, c, s) in enumerate(cells))]))  # fmt: skip
    assert kinds(path) == {"corruption": "re_evaluation", "seed": "repeat"}
    assert len(cases_of(main(path)).names) == 2


@pytest.mark.parametrize("title", ["AUPR-{}", "{} AUPR"])
def test_a_set_may_begin_like_what_belongs_to_a_metric(tmp_path, title):
    head = ",".join(["method", *map(title.format, ["iNaturalist", "iSUN"])])
    (found,) = read_results(written(tmp_path, f"{head}\nMSP,.61,.65\nKNN,.71,.75")).results
    assert found.metric == "aupr_out" and set(found.ood) == {"iNaturalist", "iSUN"}


def test_the_aupr_of_id_data_is_no_auroc(tmp_path):
    (found,) = read_results(written(tmp_path, "method,SVHN PR-AUC-IN\nMSP,.6\nKNN,.7")).results
    assert found.metric == "aupr_in"


def test_without_sets_a_column_of_metrics_has_no_outliers(tmp_path):
    text = "model,metric,value\nA,accuracy,.61\nB,accuracy,.65"
    assert main(written(tmp_path, text)).ood == ("",)
