"""Write what a finished study found in the worst case into docs/results/worst-case.csv.

python benchmarks/worst_case.py STUDY... --store STORE --write docs/results/worst-case.csv

A row per study, outlier set, variation and detector: the AUROC on clean outliers and on what was
found, with 95% intervals, the share of found outliers that are accepted where 95% of known data
are, and MinRank with its standard error over runs and over repeats of the search. Rows of the same
study are replaced. `make docs` makes the page of it.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path

from oodometer.engine.plan.study_index import Outcome, studies_in
from oodometer.engine.stores import Store, open_store
from oodometer.engine.work.codecs import bytes_to_table
from oodometer.errors import UserError
from oodometer.metrics import Estimate
from oodometer.protocols.worst_case.searched import searches


def rows_of(outcome: Outcome, store: Store) -> Iterator[dict[str, object]]:
    """The rows of a study."""
    wanted = outcome.study.searches
    if wanted is None:
        raise UserError(f"Study '{outcome.study.name}' has no searches.")
    table = bytes_to_table(store.view("tables", outcome.table_key))
    for part in searches(table):
        for name in part.detectors:
            rank = part.lowest_rank(name)
            yield {
                "study": outcome.study.name,
                "outliers": part.outliers,
                "variation": part.variation,
                "detector": name,
                "runs": len(part.runs),
                "images": wanted.images,
                "steps": wanted.steps,
                **_written("clean", part.clean(name)),
                **_written("worst", part.worst(name)),
                "found accepted": f"{part.accepted(name, part.found[name]):.3f}",
                "lowest rank": f"{rank.mean:.1f}",
                "standard error": _error(rank.errors["runs"]),
                "known": part.known,
                "repeats": rank.ranks.shape[1],
                "standard error over repeats": _error(rank.errors["repeats"]),
            }


def _error(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _written(title: str, made: Estimate) -> dict[str, str]:
    values = {"AUROC": made.value, "low": made.low, "high": made.high}
    return {f"{title} {name}": f"{value:.4f}" for name, value in values.items()}


def main() -> None:
    """Read the arguments and write the rows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("studies", nargs="+")
    parser.add_argument("--store", required=True)
    parser.add_argument("--write", type=Path, required=True)
    given = parser.parse_args()
    store = open_store(given.store)
    finished = studies_in(store)
    rows: list[dict[str, object]] = []
    if given.write.exists():
        with given.write.open(newline="", encoding="utf-8") as file:
            rows = [dict(row) for row in csv.DictReader(file) if row["study"] not in given.studies]
    for name in given.studies:
        if name not in finished:
            raise SystemExit(f"{given.store} has no finished study '{name}': {', '.join(finished)}")
        rows += rows_of(finished[name], store)
    with given.write.open("w", newline="", encoding="utf-8") as file:
        columns = list(
            dict.fromkeys(name for row in rows for name in row)
        )  # earlier rows have less
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
