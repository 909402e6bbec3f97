"""Tables whose right reading is known: what a generator of tables found to be read wrongly."""

import itertools
import json

import pytest

from oodometer.errors import UserError
from oodometer.factors import OPTIMIZERS, TITLES
from oodometer.protocols.common.cases import cases_of
from oodometer.tables import read_results
from oodometer.tables.vocabulary.data_names import is_data
from oodometer.tables.vocabulary.known import known_names
from oodometer.tables.vocabulary.measures import metric_named
from oodometer.tables.vocabulary.names import is_compared
from oodometer.tables.vocabulary.statistics import is_average
from oodometer.tables.vocabulary.titles import is_setting


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
    path = written(tmp_path, text.replace("mean-teacher", "max-quotient"), "auroc.csv")
    with pytest.raises(UserError, match=r'auroc=\*"\), or .*ignore=max-quotient'):
        main(path)
    assert "max-quotient" in main(path, "auroc=*").detectors
    assert len(main(path, "ignore=max-quotient").detectors) == 3


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
    assert found.metric == "AUPR" and set(found.ood) == {"iNaturalist", "iSUN"}


def test_the_aupr_of_id_data_is_no_auroc(tmp_path):
    (found,) = read_results(written(tmp_path, "method,SVHN PR-AUC-IN\nMSP,.6\nKNN,.7")).results
    assert found.metric == "aupr_in"


def test_without_sets_a_column_of_metrics_has_no_outliers(tmp_path):
    text = "model,metric,value\nA,accuracy,.61\nB,accuracy,.65"
    assert main(written(tmp_path, text)).ood == ("",)


def lines(head, rows):
    return "\n".join([head, *(",".join(map(str, row)) for row in rows)])


@pytest.mark.parametrize("sign", [" ", "_", "/"])
def test_titles_that_pair_id_sets_with_outliers_are_two_columns(tmp_path, sign):
    pairs = [f"{i}{sign}{o}" for i in ("CIFAR-10", "CIFAR-100") for o in ("SVHN", "iSUN")]
    head = ",".join(["method", *pairs])
    text = f"{head}\nOrion,.91,.82,.73,.64\nArgus,.81,.72,.63,.74"
    found = main(written(tmp_path, text, "auroc.csv"))
    assert found.ids == ("CIFAR-10", "CIFAR-100") and found.ood == ("SVHN", "iSUN")
    assert len(found.frame) == 4 + 4 and found.detectors == ("Orion", "Argus")


def test_titles_that_pair_detectors_with_sets_are_two_columns(tmp_path):
    text = (
        ",,MSP,,,,ViM,,,\n,,SVHN,,iSUN,,SVHN,,iSUN,\n"
        "id,seed,AUROC,FPR95,AUROC,FPR95,AUROC,FPR95,AUROC,FPR95\n"
        "CIFAR-10,1,.91,.31,.82,.42,.93,.23,.84,.34\nCIFAR-10,2,.90,.32,.81,.43,.95,.2,.83,.35\n"
        "CIFAR-10,3,.92,.33,.83,.41,.94,.22,.85,.36\n"
    )
    reading = read_results(written(tmp_path, text))
    found = reading.results[0]
    assert found.detectors == ("MSP", "ViM") and set(found.ood) == {"SVHN", "iSUN"}
    assert [part.metric for part in reading.results] == ["auroc", "fpr95"]
    assert len(found.frame) == 12 and kinds(written(tmp_path, text)) == {"seed": "repeat"}


@pytest.mark.parametrize("title", ["dataset", "OOD dataset"])
def test_known_names_tell_id_sets_in_titles_from_outliers_in_lines(tmp_path, title):
    rows = [(d, o, f".{70 + n}", f".{80 + n}") for n, (d, o) in enumerate(
        itertools.product(["MSP", "KNN"], ["iSUN", "Textures", "SVHN"]))]  # fmt: skip
    path = written(tmp_path, lines(f"method,{title},CIFAR-10,CIFAR-100", rows), "auroc.csv")
    assert main(path).ids == ("CIFAR-10", "CIFAR-100")
    assert main(path).ood == ("iSUN", "Textures", "SVHN")
    rows = [(d, i, ".81", ".82") for d in ("MSP", "KNN") for i in ("CIFAR-10", "CIFAR-100")]
    path = written(tmp_path, lines("method,data,iSUN,Textures", rows), "auroc.csv")
    assert main(path).ids == ("CIFAR-10", "CIFAR-100")


@pytest.mark.parametrize("form", ["{} AUROC", "AUROC {}", "{}_macro F1"])
def test_the_numbers_of_delta_are_its_results(tmp_path, form):
    head = ",".join(["dataset", *map(form.format, ["Orion", "Delta", "Argus"])])
    rows = [("x", ".81", ".85", ".72"), ("y", ".74", ".79", ".68"), ("z", ".65", ".61", ".77")]
    assert "Delta" in main(written(tmp_path, lines(head, rows)), "detector=*").detectors
    rows = [("x", ".81", ".09", ".72"), ("y", ".74", ".06", ".68"), ("z", ".65", "-.12", ".77")]
    assert "Delta" not in main(written(tmp_path, lines(head, rows)), "detector=*").detectors


def test_a_data_set_may_be_called_delta(tmp_path):
    text = "model,harbor,delta-x,river\nResNet-18,.91,.85,.88\nViT-B,.81,.79,.83\nMLP,.7,.71,.75"
    assert "delta-x" in main(written(tmp_path, text, "accuracy.csv")).ids


def test_a_plant_called_b_has_no_balanced_accuracy(tmp_path):
    text = "model,plant_a_accuracy,plant_b_accuracy\nResNet-18,.91,.85\nViT-B,.81,.79"
    found = main(written(tmp_path, text))
    assert found.metric == "accuracy" and len(found.frame) == 4
    text = "model,dataset,b_acc\nResNet-18,x,.91\nViT-B,x,.8\nResNet-18,y,.7\nViT-B,y,.6"
    assert main(written(tmp_path, text)).metric == "balanced accuracy"


def test_macro_f1_beside_names_of_sets_is_no_mean(tmp_path):
    text = ",iris,wine,Average\nmodel,macro F1,macro F1,macro F1\nA,.7,.8,.75\nB,.6,.9,.75"
    assert set(main(written(tmp_path, text)).ids) == {"iris", "wine"}


def test_what_pandas_writes_below_the_titles_names_the_lines(tmp_path):
    text = (
        ",NLL,NLL,accuracy,accuracy\ndataset,wine,iris,wine,iris\nmodel,,,,\n"
        "ResNet-18,1.7,1.6,.61,.64\nViT-B,1.4,1.3,.67,.68\nMLP,1.2,1.1,.7,.72\n"
    )
    assert main(written(tmp_path, text)).detectors == ("ResNet-18", "ViT-B", "MLP")
    text = (
        ",,method,MSP,KNN\n,,,AUROC,AUROC\ndataset,noise_rate,severity,,\n"
        "SVHN,0,3,.61,.54\nSVHN,0,5,.67,.52\nSVHN,.1,3,.72,.65\nSVHN,.1,5,.74,.6\n"
    )
    assert kinds(written(tmp_path, text)) == {
        "severity": "re_evaluation", "noise_rate": "condition"
    }  # fmt: skip


def test_gaps_below_three_lines_of_titles_are_gaps(tmp_path):
    text = (
        ",CIFAR-10,CIFAR-10,CIFAR-100,CIFAR-100\n,iSUN,SVHN,iSUN,SVHN\n"
        "method,AUROC,AUROC,AUROC,AUROC\nOrion,.78,.72,.60,.47\nArgus,.55,.6,.37,.36\n"
        "Corvus,-,.4,.32,.35\nGyre,-,.5,.33,.34\n"
    )
    assert len(main(written(tmp_path, text)).frame) == 14


@pytest.mark.parametrize("names", [["iteration_0", "iteration_1"], ["seed 1", "seed 2"]])
def test_files_of_runs_name_no_detectors(tmp_path, names):
    folder = tmp_path / "runs"
    folder.mkdir()
    for n, name in enumerate(names):
        rows = [(m, s, f".{60 + 7 * k + n}") for k, (m, s) in enumerate(
            itertools.product(["ResNet-18", "ViT-B"], ["wine", "iris"]))]  # fmt: skip
        written(folder, lines("model,dataset,accuracy", rows), f"{name}.csv")
    assert main(folder).detectors == ("ResNet-18", "ViT-B")
    assert list(kinds(folder).values()) == ["repeat"]


def test_folders_of_id_sets_keep_their_whole_names(tmp_path):
    for n, name in enumerate(["CIFAR-10", "CIFAR-100"]):
        (tmp_path / "r" / name).mkdir(parents=True)
        rows = [("MSP", "SVHN", f".{70 + n}"), ("KNN", "SVHN", f".{80 + n}")]
        written(tmp_path / "r" / name, lines("method,ood,AUROC", rows), "metrics.csv")
    assert set(main(tmp_path / "r").ids) == {"CIFAR-10", "CIFAR-100"}


def test_files_of_one_form_are_conditions_and_no_parts(tmp_path):
    folder = tmp_path / "r"
    folder.mkdir()
    for n, name in enumerate(["mixup", "plain"]):
        rows = [(d, s, f".{60 + 7 * k + n}") for k, (d, s) in enumerate(
            itertools.product(["MSP", "KNN"], ["SVHN", "iSUN"]))]  # fmt: skip
        written(folder, lines("method,ood,AUROC", rows), f"{name}.csv")
    assert kinds(folder) == {"from file": "condition"}


def test_notes_are_no_parameters_of_detectors(tmp_path):
    rows = [(d, s, f"{s}_{p}", note, f".{60 + 7 * k}") for k, (d, s, p, note) in enumerate([
        ("LOF", "wine", 1, ""), ("LOF", "wine", 2, ""), ("LOF", "iris", 1, ""),
        ("LOF", "iris", 2, ""), ("PCA", "wine", 1, "ok"), ("PCA", "wine", 2, "rerun"),
        ("PCA", "iris", 1, "ok"), ("PCA", "iris", 2, "rerun")])]  # fmt: skip
    found = main(written(tmp_path, lines("method,dataset,subject,notes,AUROC", rows)))
    assert found.detectors == ("LOF", "PCA")


@pytest.mark.parametrize("above", ["AUROC of all methods on seed {0}", "seed {0}"])
def test_captions_and_headings_number_runs(tmp_path, above):
    table = "\n\nmethod   SVHN   iSUN\nMSP      .9{0}    .8{0}\nKNN      .7{0}    .6{0}\n\n"
    text = "".join((above + table).format(n) for n in (1, 2, 3))
    assert kinds(written(tmp_path, text, "auroc.txt")) == {"seed": "repeat"}


def test_a_name_of_seed_and_noise_rate_hides_neither(tmp_path):
    cells = itertools.product(["A", "B", "C"], ["x", "y"], [1, 2, 3], ["0", "0.4"])
    rows = [(d, s, f"exp-{n}-{r}", n, f".{60 + k % 37}", r) for k, (d, s, n, r) in enumerate(cells)]
    path = written(tmp_path, lines("detector,dataset,exp_name,seed,accuracy,noise_rate", rows))
    assert kinds(path) == {"seed": "repeat", "noise_rate": "condition"}


@pytest.mark.parametrize("sign", [" ", "_", "="])
def test_titles_may_name_the_levels_of_a_known_factor(tmp_path, sign):
    head = f"method,dataset,checkpoint{sign}early AUROC,checkpoint{sign}late AUROC"
    rows = [("MSP", "SVHN", ".8", ".9"), ("KNN", "SVHN", ".7", ".8"), ("MSP", "iSUN", ".6", ".7"),
            ("KNN", "iSUN", ".5", ".65")]  # fmt: skip
    path = written(tmp_path, lines(head, rows))
    assert kinds(path) == {"checkpoint": "re_evaluation"} and set(main(path).ood) == {
        "SVHN",
        "iSUN",
    }


def test_a_known_set_around_all_of_a_json_file_is_a_level(tmp_path):
    inside = {i: {d: {"AUROC": [v, v + 0.02]} for d, v in (("MSP", 0.7), ("KNN", 0.8))}
              for i in ("CIFAR-10", "CIFAR-100")}  # fmt: skip
    path = written(tmp_path, json.dumps({"iSUN": inside}), "t.json")
    assert main(path).ids == ("CIFAR-10", "CIFAR-100") and main(path).ood == ("iSUN",)


def test_aligned_text_with_empty_cells_and_two_lines_of_titles(tmp_path):
    text = (
        "Results of all runs of today\n\nmethod     ood    notes   AUROC\nMSP        SVHN"
        "           0.91\nKNN        SVHN   rerun   0.92\nMSP        iSUN           0.81\n"
        "KNN        iSUN           0.83\n"
    )
    assert set(main(written(tmp_path, text, "t.txt")).ood) == {"SVHN", "iSUN"}
    text = (
        "dataset   seed   Orion           Argus\n                 AUROC   FPR95   AUROC   FPR95\n"
        "SVHN      1      0.91    0.32    0.81    0.45\n"
        "SVHN      2      0.92    0.31    0.83    -\n"
        "iSUN      1      0.71    0.62    0.61    0.75\n"
        "iSUN      2      0.72    0.61    0.63    0.7\n"
    )
    found = main(written(tmp_path, text, "t.txt"), "detector=*")
    assert found.detectors == ("Orion", "Argus") and len(found.frame) == 8


def test_a_table_of_models_on_its_side(tmp_path):
    text = "model,ResNet-18,ViT-B,ResNet-18,ViT-B\ndataset,x,x,y,y\naccuracy,.71,.82,.63,.94"
    found = main(written(tmp_path, text))
    assert found.detectors == ("ResNet-18", "ViT-B") and found.ids == ("x", "y")


def test_results_of_known_benchmarks_are_better_if_higher(tmp_path):
    """Nobody publishes errors on them; beside a set with perplexities, the metric is asked."""
    text = "model,{},gsm8k\nLlama-2-7b,53.1,78.6,14.5\nQwen-7B,51.4,79.5,44.9"
    reading = read_results(written(tmp_path, text.format("arc_challenge,HellaSwag")))
    (results,) = reading.results
    assert results.higher_is_better and results.ids == ("arc_challenge", "HellaSwag", "gsm8k")
    assert any("higher is better, on these benchmarks" in note for note in reading.notes)
    turned = "task,Llama-2-7b,Qwen-7B\nMMLU,46.9,59.8\nwinogrande,74.0,72.7"
    assert main(written(tmp_path, turned)).detectors == ("Llama-2-7b", "Qwen-7B")
    with pytest.raises(UserError, match="which is better"):
        read_results(written(tmp_path, text.format("MMLU,WikiText")))


def test_known_names_say_one_thing():
    data, models, detectors = map(known_names, ("data_sets", "models", "detectors"))
    data |= known_names("answered")
    assert len(data) > 900 and len(models) > 700 and len(detectors) > 150
    assert not any(map(is_compared, data)) and not any(map(is_data, models | detectors))
    names = data | models
    assert not names & (TITLES.keys() | OPTIMIZERS)
    assert not [n for n in names if metric_named(n) or is_average(n) or is_setting(n)]
