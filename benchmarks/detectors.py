"""Price every detector in forward passes, beside pytorch-ood's, in one run on the same arrays.

    python benchmarks/detectors.py [--rows N] [--network NAME] [--pytorch-ood-python PATH] [--slow]
                                   [--neighbours]

A network of two convolutions on 28 x 28 and a ResNet-18 of width 16 on 32 x 32; 10,000 samples to
fit, as many in-distribution and as many outliers to score. A bare pass is the loop that anybody
would write, over all three sets. Single-threaded CPU time. A quantity that several detectors share
is paid for by the first. PATH is the interpreter of an environment with pytorch-ood: see
tests/oracles/make_pytorch_ood.py. `--slow` adds what is reported apart.

pytorch-ood 0.4.0 has 35 detectors. Compared are the 27 without gradients, sampling or several
layers; not ODIN, MahalanobisODIN, GradNorm, GradUncertainty, MCD, Gram, NACUE, MultiMahalanobis.

Measured on a busy machine with 2 cores, torch 2.13, one thread, in bare passes:
    small_cnn, 10,000 rows: all 33 with defaults 1.29, with all grids 1.95 (bare pass 4.4 s);
        27 that both have: pytorch-ood 29.7, here 1.92, 15.5 times as fast
    resnet18, 4,000 rows: all 33 with defaults 0.72, with all grids 0.81
    neighbours 10,000 x 50,000 x 512 beside addmm + topk: the 50th 0.91, five ranks up to the
        1000th 0.67, all 50 nearest in order 0.82
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from oodometer.detectors._neighbors import Neighbors, as_given
from oodometer.lab.asking.extract import extract
from oodometer.lab.training.networks import build_network
from oodometer.lab.training.networks._parts import Staged
from oodometer.outputs import Outputs
from oodometer.registry import DETECTORS, Detector, choose
from oodometer.scores import Missing
from oodometer.scoring import score_choice

NETWORKS = {"small_cnn": ((1, 28, 28), 16), "cnn": ((1, 28, 28), 32), "resnet18": ((3, 32, 32), 16)}
# Their cost is that of the algorithm itself, in scikit-learn or here.
APART = {"local_outlier_factor", "one_class_svm", "isolation_forest"}
CLASSES = 10


def made_up(shape: tuple[int, ...], rows: int) -> dict[str, tuple[Tensor, Tensor]]:
    """Noisy copies of one pattern per class to fit and to score, and plain noise as outliers."""
    generator = torch.Generator().manual_seed(0)
    patterns = torch.rand(CLASSES, *shape, generator=generator)
    data = {}
    for name in ("train", "test", "noise"):
        labels = torch.randint(CLASSES, (rows,), generator=generator)
        noise = torch.rand(rows, *shape, generator=generator)
        images = noise if name == "noise" else 0.35 * patterns[labels] + 0.65 * noise
        data[name] = (images, labels)
    return data


def trained(name: str, data: tuple[Tensor, Tensor]) -> nn.Module:
    """Return the network after a few epochs: its scores spread as those of a trained one do."""
    shape, width = NETWORKS[name]
    torch.manual_seed(0)
    model = build_network(name, shape, CLASSES, width)
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    for start in 3 * list(range(0, min(3200, len(data[0])), 64)):
        images, labels = (part[start : start + 64] for part in data)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return model.eval()


def seconds(work: Callable[[], object]) -> float:
    """CPU time of one call."""
    started = time.process_time()
    work()
    return time.process_time() - started


@torch.no_grad()
def bare_pass(model: nn.Module, data: dict[str, tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
    """Run the loop that anybody would write."""
    return {
        name: torch.cat([model(batch) for batch in torch.split(images, 128)])
        for name, (images, _) in data.items()
    }


def family(card: Detector) -> str:
    """Where the detector is reported."""
    if card.name in APART:
        return "apart"
    return "all" if card.needs <= {"logits", "features", "labels", "head"} else "other"


def time_detectors(
    outputs: dict[str, Outputs], names: list[str], *, grid: bool
) -> dict[str, float]:
    """CPU time of fitting and scoring, one detector after the other on the same outputs."""
    # Outputs of their own: what an earlier run computed is not there to be shared.
    own = {
        name: Outputs(part.logits, part.features, part.labels, part.head, part.layers, part.probes)
        for name, part in outputs.items()
    }
    tests = {name: part for name, part in own.items() if name != "train"}
    found = {}
    for name in names:
        started = time.process_time()
        for result in score_choice(choose(name), own["train"], tests, id="test", grid=grid):
            if isinstance(result, Missing):
                print(f"  missing: {result}")
        found[name] = time.process_time() - started
    return found


def run_pytorch_ood(
    python: str,
    model: nn.Module,
    data: dict[str, tuple[Tensor, Tensor]],
    outputs: dict[str, Outputs],
    limit: float,
) -> tuple[dict[str, float], list[str]]:
    """CPU time of pytorch-ood in its own interpreter, on the same images and weights."""
    with tempfile.TemporaryDirectory() as folder:
        for name, (images, labels) in data.items():
            np.save(f"{folder}/{name}.npy", images.numpy())
            np.save(f"{folder}/{name}_labels.npy", labels.numpy())
        linear = outputs["train"].head
        assert linear is not None and isinstance(model, Staged)
        np.savez(f"{folder}/head.npz", weight=linear.weight.numpy(), bias=linear.bias.numpy())
        modules = list(model.children())
        end = [name for name, _ in model.named_children()].index(model.stage_names[-1]) + 1
        parts = {"body": modules[:-1], "last_map": modules[:end], "rest": modules[end:]}
        for name, part in parts.items():
            example = data["train"][0][:128]
            for module in modules[:end] if name == "rest" else ():
                example = module(example)
            chain = nn.Sequential(*part).eval()
            traced = torch.jit.trace(chain, example.detach())  # type: ignore[no-untyped-call]
            torch.jit.save(traced, f"{folder}/{name}.pt")
        script = Path(__file__).with_name("pytorch_ood_times.py")
        done = subprocess.run(
            [python, str(script), folder, str(limit)], stdout=subprocess.PIPE, text=True
        )
        if done.returncode:
            raise SystemExit(done.returncode)
        told = json.loads(done.stdout.splitlines()[-1])
        return told["seconds"], told["stopped"]


def print_comparison(
    ours: dict[str, float], theirs: dict[str, float], stopped: list[str], bare: float, once: float
) -> None:
    """Print both times of every detector; ours share one extraction, `once`."""
    print(f"\n{'pytorch-ood':28}{'theirs':>10}{'ours':>10}{'ratio':>10}   (ms, defaults)")
    both = [name for name in theirs if name in ours]
    for name in sorted(both, key=theirs.__getitem__, reverse=True):
        note = ", stopped" if name in stopped else ""
        print(
            f"{name:28}{1000 * theirs[name]:10.1f}{1000 * ours[name]:10.1f}"
            f"{theirs[name] / (ours[name] + once / len(both)):10.1f}{note}"
        )
    total, own = sum(theirs[name] for name in both), sum(ours[name] for name in both) + once
    print(
        f"{len(both)} that both have: theirs {total:.2f} s = {total / bare:.1f} bare passes; ours "
        f"{own:.2f} s = {own / bare:.2f} with the one pass; {total / own:.1f} times as fast\n"
        f"(each ratio counts {1000 * once / len(both):.0f} ms of ours as its share of the pass)"
    )
    missing = sorted(set(theirs) - set(ours))
    if missing:
        print(f"only theirs: {', '.join(missing)}")


def compare(name: str, rows: int, python: str | None, limit: float, *, slow: bool) -> None:
    """Print the prices on one network."""
    shape, width = NETWORKS[name]
    data = made_up(shape, rows)
    model = trained(name, data["train"])
    bare_pass(model, {"train": (data["train"][0][:256], data["train"][1][:256])})
    passes, extractions = [], []
    for _ in range(2):
        passes.append(seconds(lambda: bare_pass(model, data)))
        extractions.append(seconds(lambda: extract(model, data)))
    bare, extraction = min(passes), min(extractions)
    outputs = extract(model, data)
    logits = bare_pass(model, data)
    gap = max(float((logits[key] - outputs[key].tensors()["logits"]).abs().max()) for key in data)
    print(f"\n{name} of width {width} on {shape}, {rows:,} samples to fit, 2 x {rows:,} to score")
    print(
        f"bare pass {bare:8.2f} s       extraction {extraction:.2f} s, {extraction / bare:.2f} "
        f"bare passes, logits within {gap:.1g}"
    )
    groups: dict[str, list[str]] = {"all": [], "apart": [], "other": []}
    for card in sorted(DETECTORS.values(), key=lambda card: card.name):
        if card.needs <= outputs["train"].available:
            groups[family(card)].append(card.name)
    measured = {}
    for title, names in groups.items():
        if title == "all" or slow:
            measured[title] = [time_detectors(outputs, names, grid=grid) for grid in (False, True)]
    for title, (default, grid) in measured.items():
        print(f"{'detector':28}{'default':>10}{'grid':>10}{'settings':>10}   (ms; {title})")
        for key in sorted(grid, key=grid.__getitem__, reverse=True):
            count = len(list(DETECTORS[key].settings()))
            print(f"{key:28}{1000 * default[key]:10.1f}{1000 * grid[key]:10.1f}{count:10}")
        for what, times in (("defaults", default), ("grids", grid)):
            total = sum(times.values())
            print(
                f"{len(times)} detectors, {what:9}{total:7.2f} s = {total / bare:.2f} bare passes; "
                f"with the pass {(total + extraction) / bare:.2f}"
            )
    if python:
        theirs, stopped = run_pytorch_ood(python, model, data, outputs, limit)
        ours = measured["all"][0]
        with_rankfeat = min(
            seconds(lambda: extract(model, data, needs=["probe:rankfeat"])) for _ in range(2)
        )
        asked = extract(model, data, needs=["probe:rankfeat"])
        scored = time_detectors(asked, ["rankfeat"], grid=False)["rankfeat"]
        ours |= {"rankfeat": with_rankfeat - extraction + scored}
        print_comparison(ours, theirs, stopped, bare, extraction)


def neighbours(queries: int, bank: int, width: int, repeats: int) -> None:
    """Print the price of exact neighbours beside a matrix product and torch's topk."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(bank, width, generator=generator).relu()
    asked = torch.randn(queries, width, generator=generator).relu()
    half = rows.square().sum(1) / 2

    def plain(count: int, chunk: int) -> None:
        for part in torch.split(asked, chunk):
            torch.addmm(half, part, rows.T, alpha=-1).topk(count, dim=1, largest=False)

    ways: dict[tuple[str, int, int], Callable[[], object]] = {}
    for count in (50, 1000):
        ranks = (50, 100, 200, 500, 1000) if count == 1000 else (50,)
        ways["ours", count, 0] = lambda ranks=ranks: Neighbors(rows, as_given).ranked(asked, ranks)  # type: ignore[misc]
        for chunk in (256, 1024):
            ways["torch", count, chunk] = lambda count=count, chunk=chunk: plain(count, chunk)  # type: ignore[misc]
    ways["nearest", 50, 0] = lambda: Neighbors(rows, as_given).nearest(asked, 50)
    spent = {way: [] for way in ways}  # type: dict[tuple[str, int, int], list[float]]
    for _ in range(repeats):
        for way, work in ways.items():
            spent[way].append(seconds(work))
    best = {way: min(times) for way, times in spent.items()}
    print(f"\nneighbours {queries:,} x {bank:,} x {width}, the quickest of {repeats} runs (s)")
    print(f"{'':32}{'ours':>8}{'addmm + topk, chunks of 256':>30}{'of 1024':>20}")
    rows_of = {
        "the 50th": ("ours", 50, 50),
        "50th, 100th ... 1000th": ("ours", 1000, 1000),
        "the same, beside topk(50)": ("ours", 1000, 50),
        "all 50 in order (LOF)": ("nearest", 50, 50),
    }
    for title, (mine, asked_for, count) in rows_of.items():
        own = best[mine, asked_for, 0]
        beside = "".join(
            f"{best['torch', count, chunk]:{size}.2f} ({own / best['torch', count, chunk]:.2f} x)"
            for chunk, size in ((256, 21), (1024, 11))
        )
        print(f"{title:32}{own:8.2f}{beside}")


def main() -> None:
    """Read the arguments and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--network", choices=NETWORKS, action="append")
    parser.add_argument("--pytorch-ood-python", metavar="PATH")
    parser.add_argument(
        "--limit", type=float, default=120.0, help="CPU seconds for each of pytorch-ood's"
    )
    parser.add_argument("--repeats", type=int, default=3, help="of the search for neighbours, or 0")
    parser.add_argument("--slow", action="store_true", help="add what is reported apart")
    parser.add_argument("--neighbours", action="store_true", help="only the search for neighbours")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if not given.neighbours:
        for name in given.network or ("small_cnn", "resnet18"):
            compare(name, given.rows, given.pytorch_ood_python, given.limit, slow=given.slow)
    if given.repeats:
        neighbours(given.rows, 5 * given.rows, 512, given.repeats)


if __name__ == "__main__":
    main()
