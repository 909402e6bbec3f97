"""Pages as text: whatever a page says twice, in claims, tables or on the terminal, is the same."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from functools import cache

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from oodometer.analysis import analyze
from oodometer.finding import Finding
from oodometer.reports.text import SCREEN, markdown, summary

P_VALUE = re.compile(r"adjusted p (?:= )?(?P<p>< 0\.0001|[\d.e-]+)")
NUMBER = re.compile(r"[+-]?\d+\.\d+")


def world(name: str) -> tuple[pd.DataFrame, dict[str, object]]:
    """A results table of this kind, and how it is analyzed."""
    rng = np.random.default_rng(sum(map(ord, name)))
    many, runs, sets, gap, noise = 7, 5, ("svhn", "dtd", "lsun"), 0.01, 0.008
    if name == "few runs":
        many, runs = 12, 3
    if name == "below one half":
        gap = 0.09
    lines = [
        {"method": f"d{d}", "dataset": s, "seed": r, "AUROC":
         0.92 - gap * d - 0.03 * sets.index(s) + rng.normal(0, noise)}
        for d in range(many) for s in sets for r in range(runs)
    ]  # fmt: skip
    frame = pd.DataFrame(lines)
    options: dict[str, object] = {}
    if name == "near one":
        frame["AUROC"] = 1.0 - (0.0006 + abs(frame["AUROC"] - 0.92)) / 60
    if name == "one is erratic":
        erratic = frame["method"] == "d3"
        frame.loc[erratic, "AUROC"] -= rng.choice([0.0, 0.3], erratic.sum())
    if name == "gaps":
        gone = (frame["method"] == "d4") & (frame["dataset"] == "lsun")
        frame = frame[~(gone | ((frame["method"] == "d6") & (frame["seed"] == 2)))]
    if name == "means":
        told = frame.groupby(["method", "dataset"])["AUROC"].agg(["mean", "std"])
        written = (100 * told).round(2).astype(str).agg(" ± ".join, axis=1).reset_index()
        frame = written.pivot_table(0, "method", "dataset", aggfunc="first").reset_index()
        options["runs"] = runs
    if name in ("ours", "few runs"):
        options["ours"] = "d2"
    if name == "equal":
        same = frame[frame["method"] == "d0"]
        frame = pd.concat([same.assign(method=f"d{d}") for d in range(many)])
    return frame, options


WORLDS = ("plain", "few runs", "near one", "below one half", "one is erratic", "gaps", "means",
          "ours", "equal")  # fmt: skip


@cache
def page(name: str) -> tuple[Finding, ...]:
    frame, options = world(name)
    found = analyze(frame, rng=np.random.default_rng(0), **options)  # type: ignore[arg-type]
    return tuple(found)


def rankings(name: str) -> list[Finding]:
    return [f for f in page(name) if f.title.startswith("Which detector has the best")]


def tables(finding: Finding) -> dict[str, list[dict[str, str]]]:
    """The tables of a page as they are written: title -> rows by column."""
    found: dict[str, list[dict[str, str]]] = {}
    lines = iter(markdown(finding).splitlines())
    title = ""
    for line in lines:
        if line.startswith("**"):
            title = line.strip("*")
        if line.startswith("| ") and title:
            columns = cells(line)
            next(lines)
            found[title], title = list(rows_below(columns, lines)), ""
    return found


def rows_below(columns: list[str], lines: Iterator[str]) -> Iterator[dict[str, str]]:
    for line in lines:
        if not line.startswith("| "):
            return
        yield dict(zip(columns, cells(line), strict=True))


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("| ").split(" | ")]


def boards(finding: Finding) -> dict[str, list[dict[str, str]]]:
    """Leaderboards by their scope."""
    start = "Who can be the best "
    return {
        title.removeprefix(start).rstrip("?"): rows
        for title, rows in tables(finding).items() if title.startswith(start)
    }  # fmt: skip


def same(one: str, other: str) -> bool:
    """Whether two texts can be one number, rounded."""
    places = min(len(text.partition(".")[2]) for text in (one, other))
    return abs(float(one) - float(other)) <= 10.0**-places


@pytest.mark.parametrize("name", WORLDS)
def test_a_mean_is_written_alike_wherever_it_stands(name):
    written: dict[str, set[str]] = {}
    for finding in rankings(name):
        for rows in tables(finding).values():
            for row in rows:
                if "mean" in row and "detector" in row:
                    written.setdefault(row["detector"], set()).add(row["mean"].split(" ")[0])
        (board, *_) = boards(finding).values()
        mean = board[0]["mean"].split(" ")[0]
        told = re.findall(r"the highest mean AUROC, ([\d.]+)", finding.claims[0].text)
        told = told or [t for c in finding.claims for t in re.findall(r"AUROC, ([\d.]+),", c.text)]
        assert told and all(same(mean, text) for text in told)
        assert float(mean) < 1
    assert written
    for name_of, texts in written.items():
        assert all(same(one, other) for one in texts for other in texts), (name_of, texts)
        assert len({len(text) for text in texts}) == len(texts), (name_of, texts)  # rounded alike


@pytest.mark.parametrize("name", WORLDS)
def test_a_p_value_is_written_alike_in_a_claim_and_in_the_leaderboard(name):
    for finding in rankings(name):
        for scope, rows in boards(finding).items():
            known = {row["detector"]: row["adjusted p"] for row in rows}
            for claim in finding.claims:
                if scope in claim.text and (told := re.search(r"(\S+?),? is .* behind, adjusted",
                                                              claim.evidence)):  # fmt: skip
                    (p_value,) = P_VALUE.findall(claim.evidence)
                    assert known[told[1]] == p_value
            for row in rows[1:]:
                below = row["adjusted p"].startswith("<") or float(row["adjusted p"]) < 0.05
                assert below == (row["can be the best"] == "no")
                end = row["against the best of the others"].rstrip("]").split(", ")[-1]
                assert (float(end) == 0) == below or float(end) == 0 == float(row["adjusted p"]) - 1


@pytest.mark.parametrize("name", WORLDS)
def test_numbers_of_runs_are_told_for_all_that_are_not_separated(name):
    for finding in rankings(name):
        (board, *_) = boards(finding).values()
        tied = {row["detector"] for row in board[1:] if row["can be the best"] == "yes"}
        for claim in finding.claims:
            if not claim.text.startswith("Separating "):
                continue
            named = set(re.findall(r"from (d\d+)", claim.text))
            more = sum(map(int, re.findall(r"from (\d+) more", claim.text)))
            assert named <= tied and len(named) + more == len(tied)
            runs = int(re.match(r"\d+", claim.evidence)[0])
            counts = [int(n) for n in re.findall(r"about (\d+)", claim.text)]
            assert counts and min(counts) > runs
        for title, rows in tables(finding).items():
            if title.startswith("d2 against the others"):
                takes = {row["detector"]: row["separating them takes"] for row in rows}
                for claim in finding.claims:
                    pairs = re.findall(r"(d\d+): [^(;]*\(would take ([^)]*)\)", claim.evidence)
                    assert all(takes[other] == told for other, told in pairs)
                sure = [row for row in rows if float(row["adjusted p"].strip("< ")) < 0.05]
                assert all(takes[row["detector"]] == "–" for row in sure)


@pytest.mark.parametrize("name", WORLDS)
def test_detectors_below_one_half_are_named_or_counted(name):
    for finding in rankings(name):
        rows = tables(finding).get("Mean AUROC per outlier set", [])
        low = {
            (row["detector"], s) for row in rows for s in row
            if s != "detector" and float(row[s]) < 0.495
        }  # fmt: skip
        told = [c for c in finding.claims if "below 0.5" in c.text or "AUROC of 0.5" in c.text]
        counted = 0
        for claim in told:
            for part in claim.text.split(": ")[1].rstrip(".").split("; "):
                who, _, where = part.rpartition(" on ")
                assert {(d, where) for d in re.findall(r"d\d+", who)} <= low
                counted += len(re.findall(r"d\d+", who))
                counted += sum(map(int, re.findall(r"(\d+) more detector", who)))
        assert counted == len(low) and bool(low) == (name == "below one half")


@pytest.mark.parametrize("name", WORLDS)
def test_degrees_of_freedom_are_those_of_the_runs(name):
    for finding in rankings(name):
        (table,) = [t for t in finding.tables if t.name == "leaderboard"]
        runs = {"few runs": 3, "gaps": 4}.get(name, 5)
        if told := re.search(r"Bayes: (\d+) \+", table.note):
            assert int(told[1]) == runs - 1


@pytest.mark.parametrize("name", WORLDS)
def test_the_terminal_has_one_screen(name):
    out = io.StringIO()
    Console(file=out, width=80).print(summary(page(name)))
    assert len(out.getvalue().rstrip("\n").splitlines()) <= SCREEN
    assert rankings(name)[0].answer.split(". ")[0] in " ".join(out.getvalue().split())


@pytest.mark.parametrize(("many", "far", "told"), [
    (7, 0, "No detector stands out: d0 and d1 share the best mean, but are not separable from any "
           "of the 5 others with"),
    (3, 0, "share the best mean, but are not separable from the other with"),
    (8, 2, "No clear winner: d0 and d1 share the best mean, but "),
])  # fmt: skip
def test_those_that_share_the_best_mean_are_not_told_as_one(many, far, told):
    values = 0.9 + 0.008 * np.random.default_rng(5).normal(size=(many, 6))
    values[many - far :] -= 0.1
    values -= np.maximum(0, values.mean(axis=1) - values[0].mean() + 1e-4)[:, None]
    values[:2] = values[0] + 1e-4
    lines = [
        {"method": f"d{d}", "dataset": "svhn", "seed": r, "AUROC": values[d, r]}
        for d in range(many) for r in range(6)
    ]  # fmt: skip
    first = analyze(pd.DataFrame(lines), rng=np.random.default_rng(0))[0]
    assert told in first.answer, first.answer
    assert "d0 and d1 share the highest mean AUROC" in first.claims[0].text


def test_means_of_two_scopes_that_differ_are_explained():
    """Data sets weigh alike whatever runs they have; retraining needs runs that all have."""
    rng = np.random.default_rng(1)
    lines = [
        {"method": f"d{d}", "id": i, "seed": r, "accuracy": 0.9 - 0.01 * d - 0.05 * r
         + rng.normal(0, 0.004)}
        for d in range(4) for i in ("wine", "iris", "glass", "yeast") for r in range(4)
        if i != "yeast" or r < 3
    ]  # fmt: skip
    for frame in (pd.DataFrame(lines), pd.DataFrame(lines).query("seed < 3")):
        found = analyze(frame, columns="id=id", rng=np.random.default_rng(0))[0]
        first, second = boards(found).values()
        means = [{row["detector"]: row["mean"].split(" ")[0] for row in b} for b in (first, second)]
        notes = [t.note for t in found.tables if t.name.startswith("leaderboard")]
        assert ("These means are not those on other data sets" in notes[1]) == (
            means[0] != means[1]
        )
        assert (means[0] != means[1]) == (len(frame) == len(lines))


def test_two_that_are_not_separable_are_told_so_once():
    rng = np.random.default_rng(0)
    lines = [
        {"method": f"d{d}", "dataset": "svhn", "seed": r, "AUROC": 0.9 + rng.normal(0, 0.01)}
        for d in range(2) for r in range(5)
    ]  # fmt: skip
    answer = analyze(pd.DataFrame(lines), rng=np.random.default_rng(0), ours="d1")[0].answer
    assert answer.count("not separable") == 1 and " are not separable with 5 runs" in answer


def test_no_interval_of_a_difference_of_shares_reaches_beyond_1():
    rng = np.random.default_rng(0)
    lines = [
        {"method": f"d{d}", "dataset": s, "seed": r,
         "AUROC": np.clip(0.95 - 0.4 * d + rng.normal(0, 0.2), 0.01, 0.99)}
        for d in range(3) for s in ("svhn", "dtd", "lsun") for r in range(3)
    ]  # fmt: skip
    found = analyze(pd.DataFrame(lines), rng=np.random.default_rng(0), ours="d1")[0]
    ends = [
        end for table in found.tables if table.name.startswith(("ours", "leaderboard", "by-set"))
        for row in table.rows for cell in row if isinstance(cell, tuple) for end in cell[1:]
    ]  # fmt: skip
    assert ends and max(map(abs, ends)) == 1.0
