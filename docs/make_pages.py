"""Generate docs/detectors.md from the detector registry, and the tables of trained detectors.

    python docs/make_pages.py [--measure]

`--measure` first times every detector on one thread and saves the results to
benchmarks/detector_costs.json; without it, the page shows the saved times.
"""

from __future__ import annotations

import csv
import json
import re
import sys
import time
from pathlib import Path

import numpy as np
import torch

import oodometer.builtin  # noqa: F401 - importing registers them
from oodometer.calls import Setting
from oodometer.needs import LAYERS, in_text
from oodometer.outputs import Head, Outputs
from oodometer.registry import DETECTORS, Detector
from oodometer.stats.agreement import tau_matrix

HERE = Path(__file__).parent
TRAINED, FIGURES = HERE / "trained-detectors.md", HERE / "results" / "trained-detectors.csv"
GENERATORS, QUALITY = HERE / "generators.md", HERE / "results" / "generators.csv"
WORST, FOUND = HERE / "worst-case.md", HERE / "results" / "worst-case.csv"
TABLE_2 = HERE / "results" / "evg-table2.csv"  # of Yoon et al. 2022
IN_TABLE_2 = "evg-cifar10"  # the study of that table, at any scale
Published = dict[tuple[str, str, str], str]  # detector, outlier set, variation -> AUROC
EXPOSED = HERE / "results" / "outlier-classifiers.csv"  # of those that learn from outliers
SPEED = HERE / "results" / "detector-model-speed.csv"
PAGE, COSTS = HERE / "detectors.md", HERE.parent / "benchmarks" / "detector_costs.json"
ORACLES = HERE.parent / "tests" / "oracles"
HEAD = """# Detectors

Generated from the code by `make docs`. Scores are higher for outliers. *Inputs* is everything that
a detector sees; labels are those of the training set only. *Settings* list the grid, with the
default in bold. *Cost* is the CPU time on one core to fit on 10,000 samples and score 20,000 (128
features, 10 classes, float32), with default settings and for the whole grid, whose settings share
work. *relative_logits* are logits up to a constant per sample, as probabilities give them. *Tested
against* names the reference for its scores, in addition to the conformance tests of all detectors.

"""
# What the tests compare a detector with, besides frozen scores of pytorch-ood: exact arithmetic,
# another library, or the definition in plain loops.
WITNESSES = {
    "acet": "the softmax in double precision; one step on a linear model in closed form",
    "adversarial_ensemble": "relative entropies in NumPy; its attack on a linear softmax",
    "adascale": "autograd, sample by sample; `scale` where all samples are equally stable",
    "ash": "loops over samples and features",
    "autoencoder_threshold": "all ranges of errors; PyTorch's Adagrad",
    "atom": "the softmax in double precision; mining on known scores",
    "binary_classifier": "SciPy's BFGS on its objective; Newton's method",
    "binary_network": "matrix products on the stored weights; the Bayes-optimal AUROC of two "
    "Gaussians",
    "ceda": "the softmax in double precision; SciPy's Gaussian filter for its noise",
    "cfood": "its definition, rank by rank; exact ranks among all neighbors",
    "cosine_to_class_mean": "scikit-learn's cosine similarity; angles in the plane",
    "cosine_to_class_weight": "scikit-learn's cosine similarity",
    "csi": "its formula in NumPy; a mean of -2 over the training images; turned images",
    "deep_ensemble": "SciPy's relative entropy; two networks that contradict each other",
    "dice": "loops over samples and weights",
    "energy": "1,000-digit arithmetic",
    "entropy": "1,000-digit arithmetic",
    "fdbd": "bisection for the point where two logits meet",
    "gaussian_mixture": "SciPy's normal densities",
    "generalized_entropy": "1,000-digit arithmetic",
    "glow": "autograd's Jacobian; the integral of its density; the published number of weights",
    "good": "the softmax in double precision; the corners of a ball; points drawn from it",
    "gradient_uncertainty": "backward passes, sample by sample",
    "gradnorm": "autograd",
    "gram": "whole Gram matrices, with each training sample left out",
    "grood": "autograd by the prototype; all distances",
    "iodin": "autograd, sample by sample; a linear network in closed form",
    "isolation_forest": "scikit-learn's IsolationForest; the mean depth over all trees on a line",
    "kl_matching": "SciPy's relative entropy",
    "knn": "scikit-learn's NearestNeighbors",
    "knn_svm": "SciPy's SLSQP on its objective; coordinate ascent in its dual; distances by SciPy",
    "knn_svm_codes": "`knn_svm` with the codes as features; distances by SciPy",
    "line": "logits after removing one unit at a time; exact fractions; `dice` after `react`",
    "local_outlier_factor": "scikit-learn's LocalOutlierFactor; the paper's definitions in loops",
    "logistic_svm": "SciPy's SLSQP on its objective; coordinate ascent in its dual",
    "lts": "loops over samples",
    "mahalanobis": "SciPy's Mahalanobis distance",
    "mahalanobis_ensemble": "SciPy's Mahalanobis distance, layer by layer",
    "mahalanobis_perturbed": "a linear network in closed form",
    "mahalanobis_weighted": "distances of two layers by autograd; equal layers",
    "margin": "1,000-digit arithmetic; two classes in closed form",
    "max_logit": "`energy` of a cold network",
    "max_softmax": "1,000-digit arithmetic",
    "mc_dropout": "PyTorch's dropout in training mode; all masks of a small network",
    "multi_layer_knn": "sorting all distances; scikit-learn's NearestNeighbors",
    "mutual_information": "PyTorch's dropout in training mode; all masks of a small network",
    "nac": "counting training samples in loops",
    "nci": "loops over samples",
    "nnguide": "sorting all products",
    "normalized_autoencoder": "a linear autoencoder in closed form; the stationary variance of "
    "its chains; the authors' number of weights",
    "odin": "a linear network in closed form",
    "odin_fine": "a linear network in closed form; `odin` where both are asked",
    "odin_without_perturbation": "1,000-digit arithmetic",
    "one_class_svm": "scikit-learn's OneClassSVM; SciPy's SLSQP on its dual",
    "openmax": "libMR 0.1.9, the authors' library; SciPy's Weibull fit, sample by sample",
    "pixelcnn": "sums over all values; all images of 3 x 3 pixels; gradients with respect to later "
    "pixels; the published number of weights",
    "outlier_exposure": "the softmax in double precision; the gradient of its loss in closed form",
    "pnml": "200-digit arithmetic",
    "rankfeat": "a singular value decomposition",
    "react": "loops over samples and features",
    "reconstruction_error": "principal component analysis; the entropy of the image; the published "
    "numbers of weights",
    "relation": "loops over all pairs; orthogonal features in closed form",
    "relative_mahalanobis": "scikit-learn's EmpiricalCovariance",
    "residual": "a singular value decomposition; points along the axes",
    "rowl": "the softmax in double precision; the published attack, which changes nothing",
    "scale": "loops over samples",
    "score_svm": "SciPy's SLSQP on its objective; coordinate ascent in its dual",
    "she": "loops over samples, with classes without a correct one",
    "sngp": "the exact posterior of a Gaussian process; SVD of unrolled convolutions",
    "ssd": "NumPy's pseudo-inverse; NT-Xent in plain loops and in closed form",
    "standardized_max_logit": "loops over samples, with classes without spread; exact fractions",
    "temperature_scaling": "SciPy's minimum of the loss",
    "vae": "PyTorch's divergences; the mean image, where the code is not read",
    "vim": "a singular value decomposition",
    "vra": "loops over samples and features",
    "weighted_energy": "the sum over weighted exponentials",
}


def agreements() -> dict[str, str]:
    """Return what the scores of each detector are tested against."""
    found: dict[str, list[str]] = {}
    for path in sorted(ORACLES.glob("pytorch_ood*.json")):
        frozen = json.loads(path.read_text(encoding="utf-8"))
        library = frozen["library"].partition(",")[0]
        for text in (*frozen["scores"], *frozen.get("others", ())):
            names = found.setdefault(re.split(r"\W", text)[0], [])
            if library not in names:
                names.append(library)
    for name, witness in WITNESSES.items():
        found.setdefault(name, []).append(witness)
    return {name: "; ".join(witnesses) for name, witnesses in found.items()}


def cost(card: Detector, costs: dict[str, list[float]]) -> str:
    """Return the measured cost, or what it consists of."""
    if card.name in costs:
        default, grid = (f"{seconds:.2g} s" for seconds in costs[card.name])
        return f"{default}, whole grid {grid}" if len(list(card.settings())) > 1 else default
    sources = {need.source for need in card.needed({})}
    if sources & {"model", "runs"}:
        return "that of training the networks that it uses"
    if "probe" in sources:
        return "that of the extra passes through the network"
    return "that of extracting the layers" if LAYERS in card.needs else ""


def reads(card: Detector) -> str:
    """Return its inputs, and at which setting, where that differs."""
    needs = {
        f"{setting}={value}": card.needed({setting: value})
        for setting, each in card.needs_for.items()
        for value in each
    }
    always = card.needed({}).intersection(*needs.values())
    by_setting = [
        f"with {chosen} {' and '.join(in_text(each - always))}"
        for chosen, each in needs.items()
        if each - always
    ]
    return ", ".join([*in_text(always), *by_setting])


def entry(card: Detector, costs: dict[str, list[float]], agrees: dict[str, str]) -> str:
    """Describe one detector."""
    settings = [
        f"`{name}`: **{card.defaults[name]}**"
        + "".join(f", {value}" for value in values if value != card.defaults[name])
        for name, values in card.grid.items()
    ]
    facts = {
        "Paper": card.paper,
        "Inputs": reads(card),
        "Settings": "; ".join(settings),
        "Cost": cost(card, costs),
        "Tested against": agrees.get(card.name, ""),
    }
    text = [f"## {card.name}", card.summary]
    if card.formula:
        text.append(f"```text\n{card.formula}\n```")
    text.append("\n".join(f"- {fact}: {value}" for fact, value in facts.items() if value))
    return "\n\n".join(text)


def built_in() -> list[Detector]:
    """All detectors of this package, by name."""
    own = [card for card in DETECTORS.values() if card.build.__module__.startswith("oodometer.")]
    return sorted(own, key=lambda card: card.name)


def page() -> str:
    """Describe every built-in detector."""
    costs = json.loads(COSTS.read_text(encoding="utf-8")) if COSTS.exists() else {}
    agrees = agreements()
    return HEAD + "\n\n".join(entry(card, costs, agrees) for card in built_in()) + "\n"


def trained_page() -> str:
    """The page of trained detectors, each table as the CSV file of benchmarks has it."""
    with FIGURES.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    text = TRAINED.read_text(encoding="utf-8")
    for data in dict.fromkeys(row["data"] for row in rows):
        marks = f"(<!-- trained on {data} -->\\n).*?(<!-- end -->)"
        table = _figures([row for row in rows if row["data"] == data])
        text = re.sub(marks, lambda found, new=table: found[1] + new + found[2], text, flags=re.S)
    if EXPOSED.exists():
        with EXPOSED.open(newline="", encoding="utf-8") as file:
            table = _with_outliers(list(csv.DictReader(file)))
        marks = "(<!-- with outliers -->\\n).*?(<!-- end -->)"
        text = re.sub(marks, lambda found: found[1] + table + found[2], text, flags=re.S)
    with SPEED.open(newline="", encoding="utf-8") as file:
        times = _speed(list(csv.DictReader(file)))
    marks = "(<!-- speed -->\\n).*?(<!-- end -->)"
    return re.sub(marks, lambda found: found[1] + times + found[2], text, flags=re.S)


def _speed(rows: list[dict[str, str]]) -> str:
    """A line per model: multiples of the arithmetic limit for grey and color images."""
    measures = {"step over limit": "step", "scoring over limit": "scoring"}
    columns = [(kind, measure) for kind in ("grey", "color") for measure in measures]
    titles = ["model", "channels", *(f"{measures[m]}, {kind}" for kind, m in columns)]
    lines = [titles, ["---"] * len(titles)]
    for model in dict.fromkeys(row["model"] for row in rows):
        own = {row["data"]: row for row in rows if row["model"] == model}
        widths = " / ".join(dict.fromkeys(row["channels"] for row in own.values()))
        lines.append([model, widths, *(own.get(kind, {}).get(m, "") for kind, m in columns)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _with_outliers(rows: list[dict[str, str]]) -> str:
    """Two tables per training set: AUROCs of the images as they are, and of attacked ones.

    A line per model, those without outliers first; a column per outlier set.
    """
    parts = []
    for data in sorted({row["data"] for row in rows}, reverse=True):
        own = [row for row in rows if row["data"] == data]
        own.sort(key=lambda row: bool(row["auxiliary"]))
        auxiliary = ", ".join(sorted({row["auxiliary"] for row in own} - {""}))
        radius = ", ".join(sorted({row["radius"] for row in own} - {""}))
        about = ["model", "images", "epochs", "CPU minutes", "accuracy"]
        parts.append(
            f"Trained on {data}, with {auxiliary} as auxiliary set, AUROC:\n\n"
            f"{_by_set(own, about, ['AUROC'])}\n"
            f"The same, each pixel of 200 outliers changed by at most {radius}:\n\n"
            f"{_by_set(own, ['model'], ['AUROC', 'AUROC under attack', 'guaranteed AUROC'])}"
        )
    return "\n" + "\n".join(parts) + "\n"


def _by_set(rows: list[dict[str, str]], about: list[str], measures: list[str]) -> str:
    """A line per model, columns for each outlier set of which all measures are taken."""
    taken = [row for row in rows if len(measures) == 1 or row[measures[1]]]
    columns = [
        (outliers, measure)
        for outliers in dict.fromkeys(row["outliers"] for row in taken)
        for measure in measures
    ]
    short = {"AUROC": "", "AUROC under attack": ", attacked", "guaranteed AUROC": ", guaranteed"}
    titles = [*about, *(f"{outliers}{short[measure]}" for outliers, measure in columns)]
    lines = [titles, ["---"] * len(titles)]
    for key in dict.fromkeys(tuple(row[name] for name in about) for row in taken):
        own = {row["outliers"]: row for row in taken if tuple(row[n] for n in about) == key}
        cells = [own.get(outliers, {}).get(measure, "") for outliers, measure in columns]
        shown = [f"{float(cell):.3f}" if cell else "" for cell in cells]
        told = [
            f"{float(v):.3f}" if n == "accuracy" else v for n, v in zip(about, key, strict=True)
        ]
        lines.append([*told, *shown])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def worst_case_page() -> str:
    """The page of the worst case, with a table per study as the CSV file has it."""
    text = WORST.read_text(encoding="utf-8")
    if not FOUND.exists():
        return text
    with FOUND.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    with TABLE_2.open(newline="", encoding="utf-8") as file:
        published = {
            (row["detector"], row["outliers"], row["variation"]): row["AUROC"]
            for row in csv.DictReader(file)
        }
    return worst_case_tables(text, rows, published)


def worst_case_tables(text: str, rows: list[dict[str, str]], published: Published) -> str:
    """The same page with tables of these rows, for studies of the paper beside its Table 2."""
    tables = []
    for study in dict.fromkeys(row["study"] for row in rows):
        own = [row for row in rows if row["study"] == study]
        paper = published if study.startswith(IN_TABLE_2) else {}
        tables.append(f"{_caption(own, paper)}\n\n{_worst(own, paper)}")
        tables += [f"{agreement(own, paper)}\n"] if paper else []
    marks = "(<!-- worst case -->\n).*?(<!-- end -->)"
    return re.sub(marks, lambda found: found[1] + "\n".join(tables) + found[2], text, flags=re.S)


def _caption(rows: list[dict[str, str]], published: Published) -> str:
    one = rows[0]
    return (
        f"`{one['study']}`: {one['runs']} training runs, {one['images']} images, {one['steps']} "
        "steps. Mean AUROC over runs." + " In brackets: Table 2 of the paper." * bool(published)
    )


def _measured(rows: list[dict[str, str]]) -> dict[tuple[str, str, str], float]:
    """AUROC by outlier set, detector and column: clean, or a variation."""
    return {
        (row["outliers"], row["detector"], title): float(row[f"{kind} AUROC"])
        for row in rows
        for title, kind in (("clean", "clean"), (row["variation"], "worst"))
    }


def _in_paper(published: Published, outliers: str, detector: str, column: str) -> float | None:
    """What Table 2 says, which knows one autoencoder, one PixelCNN++ and one generator."""
    name, variation = (text.partition("(")[0] for text in (detector, column))
    value = published.get((name, outliers, "gan" if variation == "stylegan2" else variation))
    return float(value) if value else None


def agreement(rows: list[dict[str, str]], published: Published) -> str:
    """In which directions measured and published figures agree: in orders, and in what is lost."""
    measured = _measured(rows)
    both = {
        key: (value, paper)
        for key, value in measured.items()
        if (paper := _in_paper(published, *key)) is not None
    }
    columns = list(dict.fromkeys((outliers, column) for outliers, _, column in both))
    taus: dict[str, list[str]] = {}
    for outliers, column in columns:
        pairs = [pair for (o, _, c), pair in both.items() if (o, c) == (outliers, column)]
        tau = tau_matrix(pairs)[0, 1] if len(pairs) > 1 else float("nan")
        taus.setdefault(outliers, []).append(f"{column} {tau:.2f} (n = {len(pairs)})")
    moved = {
        key: [np.sign(worst - clean) for worst, clean in zip(pair, both[clean_key], strict=True)]
        for key, pair in both.items()
        if key[2] != "clean" and (clean_key := (*key[:2], "clean")) in both
    }
    other = [f"{d} on {o}, {c}" for (o, d, c), (ours, theirs) in moved.items() if ours != theirs]
    lines = [
        f"Order of detectors, Kendall τ between measured and published AUROC, {outliers}: "
        f"{', '.join(parts)}."
        for outliers, parts in taus.items()
    ]
    same = f"{len(moved) - len(other)} of {len(moved)}"
    lines.append(
        f"From clean outliers to the worst case, the AUROC moves in the published direction in "
        f"{same} cases{', but not for ' * bool(other)}{', '.join(other)}."
    )
    return "\n".join(f"- {line}" for line in lines) + "\n"


def _worst(own: list[dict[str, str]], published: Published) -> str:
    """A line per outlier set and detector, a column for clean outliers and each variation."""
    columns = ["clean", *dict.fromkeys(row["variation"] for row in own)]
    values = _measured(own)
    lines = [["outliers", "detector", *columns], ["---"] * (2 + len(columns))]
    for outliers, detector in dict.fromkeys((row["outliers"], row["detector"]) for row in own):
        cells = []
        for title in columns:
            value = values.get((outliers, detector, title))
            paper = _in_paper(published, outliers, detector, title)
            beside = "" if paper is None else f" ({paper:.3f})"
            cells.append("" if value is None else f"{value:.3f}{beside}")
        lines.append([outliers, detector, *cells])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def generators_page() -> str:
    """The page of generators, with the table of their quality."""
    with QUALITY.open(newline="", encoding="utf-8") as file:
        table = _plain(list(csv.DictReader(file)))
    marks = "(<!-- quality -->\\n).*?(<!-- end -->)"
    text = GENERATORS.read_text(encoding="utf-8")
    return re.sub(marks, lambda found: found[1] + table + found[2], text, flags=re.S)


def _plain(rows: list[dict[str, str]]) -> str:
    """A line per row."""
    shown = list(rows[0])
    lines = [shown, ["---"] * len(shown), *([row[name] for name in shown] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _figures(rows: list[dict[str, str]]) -> str:
    """A table of AUROCs: a line per model, a column per outlier set."""
    sets = list(dict.fromkeys(row["outliers"] for row in rows))
    about = ["model", "size", "images", "epochs", "parameters", "CPU minutes"]
    models: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        models.setdefault(tuple(row[key] for key in about), {})[row["outliers"]] = row["AUROC"]
    lines = [[*about, *sets], ["---"] * (len(about) + len(sets))]
    lines += [[*key, *(found.get(name, "") for name in sets)] for key, found in models.items()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def made_up(seed: int, rows: int = 10_000, width: int = 128, classes: int = 10) -> Outputs:
    """Outputs of a made-up classifier; the same head for every seed."""
    fixed, generator = (torch.Generator().manual_seed(number) for number in (0, seed))
    head = Head(0.2 * torch.randn(classes, width, generator=fixed), torch.zeros(classes))
    centres = torch.randn(classes, width, generator=fixed)
    labels = torch.arange(rows) % classes
    features = centres[labels] + torch.randn(rows, width, generator=generator)
    return Outputs(features=features.relu(), labels=labels, head=head)


@torch.no_grad()
def measured(card: Detector) -> list[float]:
    """CPU seconds to fit and score: at the default, and at every setting of the grid."""
    card.fit(made_up(1, 200))  # import everything first
    found = []
    once: list[dict[str, Setting]] = [{}]
    for settings in (once, list(card.settings())):
        train, *tests = (made_up(seed) for seed in (1, 2, 3))  # nothing is cached
        started = time.process_time()
        for chosen in settings:
            score = card.fit(train, validation=None, **chosen)
            for test in tests:
                score(test)
        found.append(time.process_time() - started)
    return [float(f"{seconds:.2g}") for seconds in found]


if __name__ == "__main__":
    if "--measure" in sys.argv[1:]:
        torch.set_num_threads(1)
        usable = [card for card in built_in() if card.needs <= made_up(1, 10).available]
        figures = {card.name: measured(card) for card in usable}
        lines = [f"{json.dumps(name)}: {json.dumps(times)}" for name, times in figures.items()]
        COSTS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
    TRAINED.write_text(trained_page(), encoding="utf-8")
    GENERATORS.write_text(generators_page(), encoding="utf-8")
    WORST.write_text(worst_case_page(), encoding="utf-8")
