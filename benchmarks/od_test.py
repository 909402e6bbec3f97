"""Time OD-test from stored scores: 34 methods by 308 triplets on one core.

    OMP_NUM_THREADS=1 python benchmarks/od_test.py [samples per data set]

The last line fits the threshold anew for every triplet, with scikit-learn's ROC curve, as a loop
over the paper's algorithm would; it is timed on one method and one source and scaled up.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from sklearn.metrics import roc_curve

from oodometer.lab.data.compatibility import SOURCES, outliers_for, triplets
from oodometer.protocols.od_test.experiments import experiment
from oodometer.protocols.od_test.protocol import od_test_over_sources
from oodometer.scores import ScoreRow, ScoreTable, validation_half

PLAIN, GRIDS, LEARNED = 24, 4, 2  # detectors; those with a grid count twice: as they are, and tuned
SETTINGS = 5  # of a grid


def table(source: str, samples: int, rng: np.random.Generator) -> ScoreTable:
    """Made-up scores of 30 detectors, which are 34 methods."""
    sets = outliers_for(source)
    names = [f"plain{number}" for number in range(PLAIN)]
    settings = [(name, "", True) for name in names]
    settings += [
        (f"grid{number}", f"k={k}", k == 0) for number in range(GRIDS) for k in range(SETTINGS)
    ]
    settings += [
        (f"learned{number}", f"outliers={name}", name == sets[0])
        for number in range(LEARNED)
        for name in sets
    ]
    rows = [
        ScoreRow("", detector, setting, data, rng.normal(data != source, 1.0, samples), default)
        for detector, setting, default in settings
        for data in (source, *sets)
    ]
    return ScoreTable(source, tuple(rows))


def naive(scores: ScoreTable) -> float:
    """Return the CPU seconds of all triplets of one method, the threshold fitted for each."""
    rows = {row.dataset: row.scores for row in scores.rows if row.detector == "plain0"}
    half = validation_half(rows[scores.id].size)
    start = time.process_time()
    for _, learn, test in triplets(scores.id):
        known = np.concatenate([rows[scores.id][half], rows[learn][half]])
        truth = np.repeat([0, 1], half.sum())
        false, true, thresholds = roc_curve(truth, known)
        threshold = thresholds[(true - false).argmax()]
        np.mean(rows[scores.id][~half] < threshold), np.mean(rows[test][~half] >= threshold)
    return time.process_time() - start


def main() -> None:
    """Time the experiments alone, and the whole finding with claims, tables and intervals."""
    samples = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    rng = np.random.default_rng(0)
    tables = [table(source, samples, rng) for source in SOURCES]
    start = time.process_time()
    methods = 0
    for scores in tables:
        pairs = [(learn, test) for _, learn, test in triplets(scores.id)]
        methods = len(experiment(scores, pairs, "exact", rng).methods)
    experiments = time.process_time() - start
    start = time.process_time()
    finding = od_test_over_sources(tables, rng, triplets=triplets())
    whole = time.process_time() - start
    loop = naive(tables[0]) / len(triplets(tables[0].id)) * len(triplets()) * methods
    print(
        f"{methods} methods, {dict(finding.facts)['experiments per method']} triplets each, ",
        end="",
    )
    print(f"{samples} samples per data set; CPU seconds")
    print(f"{'experiments':36}{experiments:8.1f}")
    print(f"{'finding, experiments included':36}{whole:8.1f}")
    print(
        f"{'a loop over triplets (scaled up)':36}{loop:8.1f}{loop / experiments:8.1f} x experiments"
    )


if __name__ == "__main__":
    main()
