"""What `analyze` costs on large tables: seconds of processor and memory, reading and concluding.

    python benchmarks/analyze_large.py 1000000

The table has one line per detector, outlier set and run, with two metrics.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np


def write_table(path: Path, rows: int, detectors: int, sets: int) -> None:
    """Write a table of made-up results: detectors differ, runs and outlier sets vary."""
    rng = np.random.default_rng(0)
    runs = rows // (detectors * sets)
    level, hardness = rng.normal(0, 0.02, detectors), rng.normal(0, 0.05, sets)
    with path.open("w") as file:
        file.write("method,ood,seed,auroc,fpr95\n")
        for run in range(runs):
            noise = rng.normal(0, 0.01, (detectors, sets))
            auroc = np.clip(0.85 + level[:, None] + hardness + noise, 0, 1)
            for d in range(detectors):
                for s in range(sets):
                    value = auroc[d, s]
                    file.write(f"method {d},set {s},{run},{value:.4f},{1 - value / 1.1:.4f}\n")


def main() -> None:
    """Print the cost of each step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--detectors", type=int, default=50)
    parser.add_argument("--sets", type=int, default=20)
    given = parser.parse_args()
    from oodometer import reports
    from oodometer.analysis import findings_of
    from oodometer.tables import read_results

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.csv"
        write_table(path, given.rows, given.detectors, given.sets)
        began = time.process_time()
        reading = read_results(path)
        read = _tell("read", began)
        findings = findings_of(reading)
        concluded = _tell("conclude", read)
        reports.report(findings, Path(folder) / "report")
        _tell("report", concluded)
        print(f"{'all':9} {time.process_time() - began:7.1f} CPU-s for {given.rows:,} rows")


def _tell(step: str, since: float) -> float:
    now, peak = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{step:9} {now - since:7.1f} CPU-s, peak memory so far {peak:.2f} GB", flush=True)
    return now


if __name__ == "__main__":
    main()
