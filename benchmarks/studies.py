"""Run shipped studies at scale small, and note accuracy, time and verdicts for the docs.

    OODOMETER_DATA=... python benchmarks/studies.py instability-seed --store results --workers 2

Studies that share a store share trainings. The row of a study in docs/results/studies.csv is
replaced, and the tables in docs/studies.md are made again; without names, that is all.
CPU minutes are those of all processes of this call; --before adds those of calls that were
interrupted. --again trains and scores nothing: conclusions are drawn again from the table of the
study in the store, and the minutes of its row are kept.
"""

from __future__ import annotations

import argparse
import csv
import resource
from pathlib import Path

import numpy as np

from oodometer.cli.studies import STUDIES
from oodometer.engine.lead.collect import conclude
from oodometer.engine.lead.run import run_study
from oodometer.engine.plan.study_index import Outcome, studies_in
from oodometer.engine.stores import FolderStore
from oodometer.engine.work.codecs import bytes_to_table
from oodometer.protocols.common.learned import accuracies
from oodometer.reports.verdicts import BADGES
from oodometer.scores import ScoreTable
from oodometer.study import Study, load_study

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs" / "results" / "studies.csv"
SINGLE = FILE.with_name("study-classifiers.csv")  # classifiers of studies, trained alone
PAGE = ROOT / "docs" / "studies.md"
COLUMNS = (
    "study", "classifiers", "expected accuracy", "lowest accuracy", "highest accuracy",
    "CPU minutes", "stable", "unstable", "undecided", "first verdict",
)  # fmt: skip


def cpu_minutes() -> float:
    """CPU time of this process and of those that it has waited for."""
    uses = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in uses) / 60


def measure(study: Study, store: FolderStore, workers: int, before: float) -> dict[str, str]:
    """Run a study and return its row."""
    started = cpu_minutes()
    outcome = run_study(study, store, workers=workers, tell=print)
    minutes = before + cpu_minutes() - started
    return row_of(study, bytes_to_table(store.load("tables", outcome.table_key)), outcome, minutes)


def conclude_again(study: Study, store: FolderStore, minutes: float) -> dict[str, str]:
    """Return the row of a study that is in the store, with the conclusions of today."""
    key = studies_in(store)[study.name].table_key
    table = bytes_to_table(store.load("tables", key))
    return row_of(study, table, conclude(study, key, table, store), minutes)


def row_of(study: Study, table: ScoreTable, outcome: Outcome, minutes: float) -> dict[str, str]:
    """Return what the docs tell of a study."""
    # Of each training run, the best evaluation: others may read it wrongly on purpose.
    best: dict[object, float] = {}
    again = {factor.name for factor in table.factors if factor.kind == "re_evaluation"}
    for run, accuracy in accuracies(table).items():
        trained = frozenset((k, v) for k, v in table.runs[run].items() if k not in again)
        best[trained] = max(accuracy, best.get(trained, 0.0))
    values = np.array(list(best.values()))
    return {
        "study": study.name,
        "classifiers": str(len(best)),
        "expected accuracy": f"{study.accuracy:.3f}",
        "lowest accuracy": f"{values.min():.4f}",
        "highest accuracy": f"{values.max():.4f}",
        "CPU minutes": f"{minutes:.0f}",
        **verdicts(outcome),
    }


def _with_seeds(study: Study, most: int) -> Study:
    """Return the study with fewer levels of the factor seed, where it has one."""
    factors = tuple(
        factor.model_copy(update={"levels": factor.levels[:most]})
        if factor.field == "seed"
        else factor
        for factor in study.factors
    )
    return study.model_copy(update={"factors": factors})


def verdicts(outcome: Outcome) -> dict[str, str]:
    """How often each verdict was reached, and the first claim that is decided."""
    claims = [claim for finding in outcome.findings for claim in finding.claims]
    words = [BADGES[claim.verdict].label for claim in claims]
    counts = {word: str(words.count(word)) for word in ("stable", "unstable", "undecided")}
    decided = [
        c.text for c, word in zip(claims, words, strict=True) if word in ("stable", "unstable")
    ]
    return counts | {"first verdict": decided[0] if decided else ""}


def read() -> dict[str, dict[str, str]]:
    """Read the rows by study."""
    with FILE.open(newline="", encoding="utf-8") as file:
        return {row["study"]: row for row in csv.DictReader(file)}


def shown(rows: dict[str, dict[str, str]]) -> list[list[str]]:
    """Make the table of the studies: its lines, the title first."""
    lines = [
        ["study", "classifiers", "test accuracy", "CPU minutes", "stable / unstable / undecided",
         "first verdict"],
    ]  # fmt: skip
    for name, row in sorted(rows.items()):
        low, high = (f"{100 * float(row[f'{end} accuracy']):.1f}" for end in ("lowest", "highest"))
        lines.append(
            [
                f"`{name.removesuffix('-small')}`",
                row["classifiers"],
                f"{low}%" if low == high else f"{low}% to {high}%",
                row["CPU minutes"],
                " / ".join(row[word] for word in ("stable", "unstable", "undecided")),
                row["first verdict"],
            ]
        )
    return lines


def page() -> str:
    """Return docs/studies.md with the tables of today."""
    text = PAGE.read_text(encoding="utf-8")
    with SINGLE.open(newline="", encoding="utf-8") as file:
        tables = {FILE: shown(read()), SINGLE: list(csv.reader(file))}
    for source, (title, *lines) in tables.items():
        start, end = f"<!-- {source.name} -->\n", f"<!-- end of {source.name} -->\n"
        before, _, rest = text.partition(start)
        made = [f"| {' | '.join(line)} |\n" for line in (title, *lines)]
        made.insert(1, "|---" * len(title) + "|\n")
        text = before + start + "".join(made) + end + rest.partition(end)[2]
    return text


def main() -> None:
    """Run the named studies, then write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--store", default="results")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seeds", type=int, help="only the first of them")
    parser.add_argument("--before", type=float, default=0.0)
    parser.add_argument("--again", action="store_true")
    given = parser.parse_args()
    for name in given.names:
        study = load_study(STUDIES / f"{name}.yaml").at_scale("small")
        whole = len(study.runs())
        study = _with_seeds(study, given.seeds) if given.seeds else study
        rows, store = read() if FILE.exists() else {}, FolderStore(given.store)
        if given.again:
            row = conclude_again(study, store, float(rows[study.name]["CPU minutes"]))
        else:
            row = measure(study, store, given.workers, given.before)
        if len(study.runs()) < whole:
            row["classifiers"] += f" ({given.seeds} seeds only)"
        rows |= {study.name: row}
        with FILE.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows[name] for name in sorted(rows))
        print(row)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
