"""Random results tables with a known right reading: designs, and what must be read of them.

A `World` is a design: what is compared, on which data, under which factors, by which metrics, with
its numbers as they are written. `table_layouts` writes it as tables of many forms; `judge` says
what a reading got wrong. From the command line, thousands of cases are tried:

    python tests/table_worlds.py --cases 2000 --seed 7
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from statistics import fmean, pstdev

from oodometer.factors import plain

Cell = tuple[str, ...]  # a level per axis, in the order of World.axes


@dataclass(frozen=True)
class Metric:
    """A metric: its name in readings, how titles spell it, and where its numbers lie."""

    name: str
    spellings: tuple[str, ...]
    higher: bool
    is_share: bool
    low: float
    high: float


METRICS = {
    metric.name: metric
    for metric in (
        Metric("auroc", ("AUROC", "auroc", "AUC", "ROC-AUC", "roc_auc", "AUROC ↑", "test_auroc"),
               True, True, 0.62, 0.99),
        Metric("fpr95", ("FPR95", "FPR@95", "fpr95", "FPR@95TPR ↓", "fpr_at_95_tpr", "FPR95 ↓"),
               False, True, 0.08, 0.9),
        Metric("aupr_out", ("AUPR-OUT", "AUPR_Out", "aupr_out", "AUPR-Out ↑"),
               True, True, 0.4, 0.98),
        Metric("accuracy", ("Accuracy", "acc", "accuracy", "Test Accuracy", "Top-1", "test_acc"),
               True, True, 0.5, 0.98),
        Metric("F1", ("F1", "F1-score", "macro F1", "f1_score"), True, True, 0.4, 0.95),
        Metric("calibration error", ("ECE", "ece", "ECE ↓"), False, True, 0.02, 0.3),
        Metric("NLL", ("NLL", "nll", "NLL ↓", "log_loss"), False, False, 0.2, 2.5),
        Metric("RMSE", ("RMSE", "rmse", "RMSE ↓"), False, False, 0.5, 9.0),
    )
}  # fmt: skip
OWN = ("regret", "utility")  # of which nothing says which way is better
DETECTION = ("auroc", "fpr95", "aupr_out")
POST_HOC = ("MSP", "Energy", "ODIN", "KNN", "ViM", "ReAct", "ASH", "Mahalanobis", "GradNorm",
            "MaxLogit", "OpenMax", "KL-Matching", "DICE", "RMDS", "SHE", "GEN", "NNGuide", "SCALE",
            "fDBD", "RankFeat")  # fmt: skip
FITTED = ("IForest", "LOF", "ECOD", "COPOD", "HBOS", "OCSVM", "KDE", "PCA", "DeepSVDD", "ABOD",
          "LODA", "CBLOF")  # fmt: skip
MODELS = ("ResNet-18", "ViT-B/16", "DenseNet-121", "VGG-16", "XGBoost", "LightGBM", "CatBoost",
          "RandomForest", "LogisticRegression", "Llama-2-7b", "GPT-4", "Mistral-7B", "BERT-base",
          "RoBERTa-large", "MLP", "TabPFN")  # fmt: skip
INVENTED = ("Argus", "Borealis", "Corvus-2", "Dorado", "Elara", "Fornax (ours)", "Gyre+", "Hydra-S",
            "Delta", "Max-Tail", "Mean-Shift", "TwinScore", "Halo", "QRS", "OrbitNorm")  # fmt: skip
OUTLIERS = ("SVHN", "LSUN-C", "iSUN", "Textures", "Places365", "iNaturalist", "MNIST", "NINCO",
            "SSB-hard", "OpenImage-O", "TIN", "DTD", "FashionMNIST", "Uniform")  # fmt: skip
ID_SETS = ("CIFAR-10", "CIFAR-100", "ImageNet-200", "ImageNet-1K", "STL10")
BENCHMARKS = ("adult", "wine", "covertype", "iris", "glass", "cardio", "thyroid", "satellite",
              "pima", "musk", "shuttle", "letter", "vowels", "yelp", "imdb", "higgs")  # fmt: skip
INVENTED_SETS = ("plant-a", "plant-b", "river", "orchard", "harbor", "mill 3", "ward_7", "delta-x",
                 "quarry", "dunes")  # fmt: skip
KNOWN_TITLES = ("method", "Method", "detector", "Detector", "approach", "postprocessor")
MODEL_TITLES = ("model", "Model", "classifier", "classifier_name", "model_name", "algorithm")
SET_TITLES = ("dataset", "Dataset", "data", "dataset_name", "Data set")
OUTLIER_TITLES = ("ood", "OOD dataset", "ood_dataset", "ood_set", "test_set", "Outlier set")
ID_TITLES = ("id", "ID", "id_dataset", "ID dataset", "in_dataset", "train_set")
REPEATS = (
    ("seed", ("0", "1", "2", "3", "4")), ("random_seed", ("42", "123", "2024", "7")),
    ("run", ("1", "2", "3", "4")), ("trial", ("1", "2", "3")), ("fold", ("1", "2", "3", "4", "5")),
    ("iteration", ("0", "1", "2")), ("rep", ("1", "2", "3")), ("run_id", ("1", "2", "3", "4")),
)  # fmt: skip
CONDITIONS = (
    ("optimizer", ("sgd", "adam", "adamw")), ("backbone", ("resnet18", "wrn40", "vit_s")),
    ("label_noise", ("0.0", "0.2", "0.4")), ("augmentation", ("plain", "mixup", "randaug")),
    ("lr", ("0.1", "0.01", "0.001")), ("batch_size", ("64", "256")),
    ("pretrained", ("yes", "no")), ("training", ("CE", "LogitNorm-like", "contrastive")),
    ("width", ("1", "2", "4")), ("noise_rate", ("0", "0.1", "0.4")),
    ("weight_decay", ("0.0001", "0.0005")), ("norm_layer", ("batch", "group")),
)  # fmt: skip
RE_EVALUATIONS = (
    ("epoch", ("10", "50", "100")), ("checkpoint", ("early", "late")),
    ("severity", ("1", "3", "5")), ("step", ("1000", "5000", "20000")),
)  # fmt: skip
PARTS = ("series", "patient_id", "subject", "file_name")
FAILED = ("-", "n/a", "nan", "OOM", "—", "failed", "N/A")


@dataclass(frozen=True)
class Axis:
    """Something that numbers vary with: its title in tables, its role or kind, and its levels."""

    title: str
    kind: str  # detector, id, ood, or the kind of a factor
    levels: tuple[str, ...]
    within: str = ""  # the kind of the axis whose levels have levels of their own


@dataclass(frozen=True)
class World:
    """A design with its numbers, as texts."""

    axes: tuple[Axis, ...]
    metrics: tuple[str, ...]  # by the names of readings
    cells: Mapping[Cell, Mapping[str, str]]  # cell -> metric -> its number
    spellings: Mapping[str, str]  # metric -> how titles call it
    is_percent: bool
    spreads: Mapping[Cell, Mapping[str, str]] = field(default_factory=dict)
    extras: Mapping[str, Callable[[Cell], str]] = field(default_factory=dict)
    unsettled: frozenset[str] = frozenset()  # what names leave open, so that a question is right
    failed: str = "-"

    def axis(self, kind: str) -> Axis | None:
        """Return the first axis of a kind."""
        return next((axis for axis in self.axes if axis.kind == kind), None)

    def place(self, kind: str) -> int:
        return next(n for n, axis in enumerate(self.axes) if axis.kind == kind)

    @property
    def factors(self) -> tuple[Axis, ...]:
        return tuple(axis for axis in self.axes if axis.kind not in ("detector", "id", "ood"))

    @property
    def main(self) -> str:
        """The metric that decides."""
        order = ("auroc", "fpr95", "aupr_out", "accuracy")
        return next((m for m in order if m in self.metrics), self.metrics[0])

    def value(self, metric: str, text: str) -> float:
        share = metric in METRICS and METRICS[metric].is_share and self.is_percent
        return float(text) / (100.0 if share else 1.0)

    def title(self, metric: str) -> str:
        return self.spellings.get(metric, metric)


def random_world(rng: random.Random) -> World:
    """Draw a design and its numbers."""
    kind = rng.choice(("post-hoc", "post-hoc", "unknown detectors", "models", "anomalies", "bare"))
    axes, unsettled = _axes(rng, kind)
    names = _metrics(rng, kind)
    if kind == "bare" and rng.random() < 0.2:
        names, unsettled = (rng.choice(OWN),), unsettled | {"metric"}
    is_percent = rng.random() < 0.5
    decimals = rng.choice((1, 2)) if is_percent else rng.choice((3, 4))
    cells = _numbers(rng, axes, names, is_percent, decimals)
    world = World(
        axes, names, cells,
        {name: rng.choice(METRICS[name].spellings) for name in names if name in METRICS},
        is_percent, unsettled=frozenset(unsettled), failed=rng.choice(FAILED),
    )  # fmt: skip
    if rng.random() < 0.25 and any(axis.kind == "repeat" for axis in axes):
        world = _summarized(world, decimals)
    return replace(world, extras=_extras(rng, world))


def _axes(rng: random.Random, kind: str) -> tuple[tuple[Axis, ...], set[str]]:
    pools = {
        "post-hoc": (POST_HOC, KNOWN_TITLES), "unknown detectors": (INVENTED, KNOWN_TITLES),
        "models": (MODELS, MODEL_TITLES), "anomalies": (FITTED, (*KNOWN_TITLES, *MODEL_TITLES)),
        "bare": (INVENTED, (*KNOWN_TITLES, *MODEL_TITLES)),
    }  # fmt: skip
    names, titles = pools[kind]
    compared = _some(rng, names, 2, 8)
    if kind == "post-hoc" and rng.random() < 0.3:
        compared = (*compared, *_some(rng, INVENTED, 1, 1))
    axes = [Axis(rng.choice(titles), "detector", compared)]
    unsettled: set[str] = set()
    if kind in ("post-hoc", "unknown detectors"):
        if rng.random() < 0.5:
            axes.append(Axis(rng.choice(ID_TITLES), "id", _some(rng, ID_SETS, 2, 4)))
        taken = axes[-1].levels
        sets = tuple(name for name in OUTLIERS if name not in taken)
        axes.append(Axis(rng.choice((*OUTLIER_TITLES, *SET_TITLES)), "ood", _some(rng, sets, 1, 7)))
    elif kind == "bare":
        axes.append(Axis(rng.choice(SET_TITLES), "id", _some(rng, INVENTED_SETS, 2, 6)))
    else:
        axes.append(Axis(rng.choice(SET_TITLES), "id", _some(rng, BENCHMARKS, 2, 8)))
    for pool, factor, chance in (
        (REPEATS, "repeat", 0.65), (CONDITIONS, "condition", 0.35), (CONDITIONS, "condition", 0.1),
        (RE_EVALUATIONS, "re_evaluation", 0.15), (REPEATS, "repeat", 0.08),
    ):  # fmt: skip
        if rng.random() < chance:
            title, levels = rng.choice(pool)
            known = {axis.title for axis in axes}
            alike = {
                "seed": "random_seed",
                "random_seed": "seed",
                "run": "run_id",
                "run_id": "run",
                "label_noise": "noise_rate",
                "noise_rate": "label_noise",
            }
            if title not in known and alike.get(title) not in known:
                axes.append(Axis(title, factor, _some(rng, levels, 2, len(levels), ordered=True)))
    if kind == "anomalies" and rng.random() < 0.25:
        parts = tuple(f"{n:03d}" for n in range(1, rng.randint(2, 4) + 1))
        axes.append(Axis(rng.choice(PARTS), "part", parts, within="id"))
    return tuple(axes), unsettled


def _some(
    rng: random.Random, pool: Sequence[str], fewest: int, most: int, *, ordered: bool = False
) -> tuple[str, ...]:
    chosen = rng.sample(list(pool), rng.randint(fewest, min(most, len(pool))))
    return tuple(sorted(chosen, key=list(pool).index)) if ordered else tuple(chosen)


def _metrics(rng: random.Random, kind: str) -> tuple[str, ...]:
    if kind in ("post-hoc", "unknown detectors"):
        return rng.choice((("auroc",), ("auroc",), ("auroc", "fpr95"), ("fpr95", "auroc"),
                           ("fpr95",), ("auroc", "fpr95", "aupr_out"), ("aupr_out",)))  # fmt: skip
    if kind == "anomalies":
        return rng.choice((("auroc",), ("auroc", "aupr_out"), ("F1",)))
    return rng.choice((("accuracy",), ("accuracy", "F1"), ("F1",), ("RMSE",), ("NLL",),
                       ("accuracy", "calibration error"), ("accuracy", "NLL"), ("auroc",),
                       ("accuracy", "F1", "calibration error", "NLL")))  # fmt: skip


def _numbers(
    rng: random.Random, axes: Sequence[Axis], names: Sequence[str], is_percent: bool, decimals: int
) -> dict[Cell, dict[str, str]]:
    """Draw numbers with an effect per level of each axis; some cells are gaps."""
    effects = {
        (axis.title, level): rng.gauss(0, 1.0 if axis.kind == "detector" else 0.6)
        for axis in axes for level in axis.levels
    }  # fmt: skip
    gaps = rng.choice((0.0, 0.0, 0.0, 0.02, 0.08))
    cells: dict[Cell, dict[str, str]] = {}
    for cell in product(*(axis.levels for axis in axes)):
        total = sum(effects[axis.title, level] for axis, level in zip(axes, cell, strict=True))
        named = _named_within(axes, cell)
        numbers = {}
        for name in names:
            better = METRICS[name].higher if name in METRICS else True
            low, high = (
                (METRICS[name].low, METRICS[name].high) if name in METRICS else (120.0, 900.0)
            )
            place = 0.5 + 0.13 * (total if better else -total) + rng.gauss(0, 0.05)
            number = low + (high - low) * min(0.99, max(0.01, place))
            percent = is_percent and name in METRICS and METRICS[name].is_share
            if rng.random() >= gaps:
                shown = decimals if percent or not is_percent else 3
                numbers[name] = f"{number * (100 if percent else 1):.{shown}f}"
        cells[named] = numbers
    return cells


def _named_within(axes: Sequence[Axis], cell: Cell) -> Cell:
    """Give levels within others names of their own: patient 3 of ward A is not that of ward B."""
    kinds = {axis.kind: level for axis, level in zip(axes, cell, strict=True)}
    return tuple(
        f"{plain(kinds[axis.within])}_{level}" if axis.within else level
        for axis, level in zip(axes, cell, strict=True)
    )


def _summarized(world: World, decimals: int) -> World:
    """State mean and standard deviation over the repeats instead of each run."""
    keep = [n for n, axis in enumerate(world.axes) if axis.kind != "repeat"]
    groups: dict[Cell, dict[str, list[float]]] = {}
    for cell, numbers in world.cells.items():
        group = groups.setdefault(tuple(cell[n] for n in keep), {})
        for metric, text in numbers.items():
            group.setdefault(metric, []).append(float(text))
    fine = {m: decimals if m in METRICS and METRICS[m].is_share else 3 for m in world.metrics}

    def texts(statistic: Callable[[Sequence[float]], float]) -> dict[Cell, dict[str, str]]:
        return {
            cell: {m: f"{statistic(numbers):.{fine[m]}f}" for m, numbers in group.items()}
            for cell, group in groups.items()
        }

    axes = tuple(world.axes[n] for n in keep)
    return replace(world, axes=axes, cells=texts(fmean), spreads=texts(pstdev))


def _extras(rng: random.Random, world: World) -> dict[str, Callable[[Cell], str]]:
    """Draw columns that say nothing about results."""
    salt = rng.random()

    def drawn(*parts: object) -> random.Random:
        return random.Random(f"{salt} {parts}")

    factors = [n for n, axis in enumerate(world.axes) if axis.kind in ("repeat", "condition")]
    offered: dict[str, Callable[[Cell], str]] = {
        "params (M)": lambda cell: f"{drawn(cell[0], 'p').uniform(1, 90):.1f}",
        "time (s)": lambda cell: f"{drawn(cell, 't').uniform(1, 900):.2f}",
        "date": lambda cell: f"2024-0{drawn(cell, 'd').randint(1, 9)}-1{drawn(cell).randint(0, 9)}",
        "commit": lambda cell: f"{drawn(cell, 'c').getrandbits(40):010x}",
        "notes": lambda cell: drawn(cell, "n").choice(["", "", "", "rerun", "ok"]),
        "host": lambda cell: drawn(cell, "h").choice(["node1", "node2"]),
        "year": lambda cell: str(drawn(cell[0], "y").randint(2016, 2024)),
        "n_test": lambda cell: str(drawn(cell[world.place(_data_kind(world))]).randint(1000, 1009)),
        "gpu_hours": lambda cell: f"{drawn(cell, 'g').uniform(0, 9):.2f}",
    }  # fmt: skip
    if len(factors) > 1:
        offered["config"] = lambda cell: "_".join(cell[n] for n in factors)
        offered["exp_name"] = lambda cell: f"exp-{'-'.join(cell[n] for n in factors)}"
    count = rng.choice((0, 0, 0, 1, 1, 2, 3))
    return {name: offered[name] for name in rng.sample(sorted(offered), min(count, len(offered)))}


def _data_kind(world: World) -> str:
    return "ood" if world.axis("ood") else "id"


if __name__ == "__main__":
    from table_cases import main

    main()
