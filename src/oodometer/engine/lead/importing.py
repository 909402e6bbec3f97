"""Import scores that were computed elsewhere into a study of a store, and conclude again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oodometer.engine.lead.collect import collect_plan, conclude, read_failures
from oodometer.engine.plan.imports import Import, imported_label, imports_in, save_import
from oodometer.engine.plan.keys import digest
from oodometer.engine.plan.study_index import (
    Outcome,
    PlanRecord,
    latest_plan,
    outcome_of_plan,
    record_later_outcome,
)
from oodometer.engine.stores import DamagedError, Store
from oodometer.engine.work.codecs import arrays_to_bytes, bytes_to_arrays
from oodometer.errors import UserError, describe, unknown
from oodometer.factors import plain
from oodometer.files import refuse_special
from oodometer.scores import ScoreTable

SETS = "sets.json"  # what `export_sets` calls its list
Digests = Mapping[str, Mapping[str, str]]  # run -> data set -> digest of the samples
ALL_RUNS = "all"


@dataclass(frozen=True)
class Imported:
    """What came of an import."""

    made: Import
    outcome: Outcome | None  # None: the study is not finished yet


def import_scores(
    table: ScoreTable,
    detector: str,
    study: str,
    store: Store,
    *,
    source: str,
    digests: Digests | None = None,
    runs: str = "",
    replace_earlier: bool = False,
) -> Imported:
    """Put one detector's scores into a study of a store, and conclude again if it is finished.

    `digests` says which samples were scored, as `export_sets` has listed them, unless the table
    does. `runs` is "all" if scores without a run hold for every run, or the label of one.
    """
    plan_key, plan = latest_plan(study, store)
    if not plan.sets:
        raise UserError(
            f"Study '{study}' was planned by a version that kept no digests of its data: run it "
            "again, then import."
        )
    if not detector.strip():
        raise UserError("--detector is empty: give the detector a name.")
    label = imported_label(detector.strip())
    earlier = [made for made in imports_in(store, study) if made.detector == label]
    if earlier and not replace_earlier:
        raise UserError(
            f"Study '{study}' has imported scores of '{detector}' already, from "
            f"'{earlier[0].source}': add --replace, or choose another name."
        )
    if len(table.detectors) != 1:
        raise UserError(
            f"The scores are of {len(table.detectors)} detectors, {', '.join(table.detectors)}: "
            "import one at a time."
        )
    store.require_writable()
    scores = _checked(table, plan, store, runs, digests)
    made = _save(scores, label, source, plan, store)
    for old in earlier:
        if old.key != made.key:
            store.discard("imports", old.key)
    return Imported(made, _conclude_again(plan_key, plan, store))


def forget_import(detector: str, study: str, store: Store) -> Outcome | None:
    """Take imported scores out of a study, and conclude again if it is finished."""
    plan_key, plan = latest_plan(study, store)
    known = {made.detector: made for made in imports_in(store, study)}
    label = detector if detector in known else imported_label(detector)
    if label not in known:
        raise unknown(f"imported detector of study '{study}'", detector, known)
    store.discard("imports", known[label].key)
    return _conclude_again(plan_key, plan, store)


_Scores = dict[str, dict[str, NDArray[np.float64]]]  # run -> data set -> scores


def _checked(
    table: ScoreTable, plan: PlanRecord, store: Store, runs: str, digests: Digests | None
) -> _Scores:
    """Scores by the runs and data sets of the plan; samples must be the same, and as many."""
    (detector,) = table.detectors
    own = {name: info.digest for name, info in table.sets.items() if info.digest}
    given = dict.fromkeys(plan.runs, own) if digests is None and own else digests
    if given is None:
        raise UserError(
            "The scores do not say which samples they are of: add --sets FILE, the sets.json that "
            f"'oodometer data export --study {plan.study.name}' writes with the samples to score."
        )
    checked: _Scores = {}
    for run, name in _matched_runs(table, plan, runs).items():
        wanted = plan.sets[run]
        found = {
            _set_of(plan, run, dataset): table.scores(name, detector, dataset)
            for dataset in (table.id, *table.ood)
        }
        checked[run] = {}
        for dataset, known in wanted.items():
            scores = found.get(dataset)
            where = f"'{dataset}' in run '{run}'"
            if scores is None:
                raise UserError(
                    f"Scores on {where} are missing: all of {', '.join(wanted)} are needed."
                )
            if (said := given.get(run, {}).get(dataset)) != known:
                raise UserError(
                    f"The scores are of other samples than those of {where}: their digest is "
                    f"{(said or 'not given')[:16]}, that of the study {known[:16]}."
                )
            if (samples := _samples(run, dataset, plan, store)) != len(scores):
                raise UserError(
                    f"There are {len(scores)} scores on {where}, which has {samples} samples."
                )
            checked[run][dataset] = scores
    if _set_of(plan, next(iter(plan.sets)), table.id) != plan.id:
        raise UserError(
            f"The in-distribution set of study '{plan.study.name}' is '{plan.id}', not "
            f"'{table.id}'."
        )
    return checked


def _set_of(plan: PlanRecord, run: str, name: str) -> str:
    """The data set of the plan that a name means; spaces and underscores are alike."""
    by_title = {plain(own): own for own in plan.sets[run]}
    if name not in plan.sets[run] and plain(name) not in by_title:
        raise unknown(f"data set of study '{plan.study.name}'", name, plan.sets[run])
    return name if name in plan.sets[run] else by_title[plain(name)]


def _matched_runs(table: ScoreTable, plan: PlanRecord, runs: str) -> dict[str, str]:
    """Runs of the plan, each with the run of the table that has its scores."""
    if "" in table.runs:
        if runs == ALL_RUNS or len(plan.runs) == 1:
            return dict.fromkeys(plan.runs, "")
        if not runs:
            raise UserError(
                f"Study '{plan.study.name}' has {len(plan.runs)} runs: add --runs all if the "
                "detector does not read the classifier, --runs LABEL for one run, or a column "
                f"'run' with labels such as '{next(iter(plan.runs))}'."
            )
        if runs not in plan.runs:
            raise unknown("run", runs, [*plan.runs, ALL_RUNS])
        return {runs: ""}
    if runs:
        raise UserError(f"The scores name their runs themselves: leave out --runs '{runs}'.")
    by_levels = {frozenset(map(_texts, levels.items())): run for run, levels in plan.runs.items()}
    # Where one factor varies, its level names a run.
    by_level = {
        str(v): run for run, own in plan.runs.items() if len(own) == 1 for v in own.values()
    }
    matched = {}
    for name, levels in table.runs.items():
        known = by_levels.get(frozenset(map(_texts, levels.items()))) or by_level.get(name)
        label = name if name in plan.runs else known
        if label is None:
            raise unknown(f"run of study '{plan.study.name}'", name, plan.runs)
        matched[label] = name
    return matched


def _texts(level: tuple[str, object]) -> tuple[str, str]:
    return level[0], str(level[1])


def _samples(run: str, dataset: str, plan: PlanRecord, store: Store) -> int:
    """How many samples the scores of other detectors have."""
    for part in plan.artefacts:
        if part.kind == "scores" and (part.about.run, part.about.dataset) == (run, dataset):
            try:
                arrays = bytes_to_arrays(store.load("scores", part.key))
            except DamagedError:  # or not there yet
                continue
            for setting, array in arrays.items():
                if setting != "refused":
                    return len(array)
    raise UserError(f"Nothing of study '{plan.study.name}' is scored yet in run '{run}': run it.")


def _save(scores: _Scores, label: str, source: str, plan: PlanRecord, store: Store) -> Import:
    keys: dict[str, dict[str, str]] = {}
    for run, by_set in scores.items():
        keys[run] = {}
        for dataset, values in by_set.items():
            payload = arrays_to_bytes({"-": values})
            key = digest("imported scores", plan.sets[run][dataset], label, payload.hex())
            about = {"run": run, "detector": label, "data set": dataset, "imported": source}
            store.save("scores", key, payload, about)
            keys[run][dataset] = key
    sets = {run: plan.sets[run] for run in scores}
    made = Import(plan.study.name, label, source, sets, keys)
    save_import(made, store)
    return made


def _conclude_again(plan_key: str, plan: PlanRecord, store: Store) -> Outcome | None:
    """Gather and conclude with what is imported now; None if the study is not finished."""
    before = outcome_of_plan(plan_key, store)
    if before is None:
        return None
    failed = [*read_failures(plan, store)]
    collected = collect_plan(plan, lambda: plan_key, store, failed)
    if collected is None:
        raise UserError(f"Some scores of study '{plan.study.name}' are damaged: run it again.")
    outcome = conclude(plan.study, *collected, store)
    record_later_outcome(before, outcome, plan_key, store)
    return outcome


def read_digests(path: Path) -> Digests:
    """Read the list that `export_sets` has written."""
    refuse_special(path, "List of data sets")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {
            run: {name: str(about["digest"]) for name, about in sets.items()}
            for run, sets in content["runs"].items()
        }
    except OSError as problem:
        raise UserError(f"Cannot read '{path}': {problem.strerror or problem}.") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as problem:
        raise UserError(
            f"'{path}' is not a list of data sets that 'oodometer data export' has written: "
            f"{describe(problem).rstrip('.')}."
        ) from None


def export_sets(study: str, store: Store, folder: Path) -> list[Path]:
    """Write the samples that the detectors of a study score, and a list of their digests."""
    from oodometer.lab.data.outliers import load_outliers
    from oodometer.lab.data.sources import load_source

    _, plan = latest_plan(study, store)
    written: dict[str, tuple[Path, int]] = {}  # by digest
    runs: dict[str, dict[str, dict[str, object]]] = {}
    folder.mkdir(parents=True, exist_ok=True)
    for run, (spec, _) in plan.study.runs().items():
        known = plan.sets.get(run, {})
        if known and all(digest in written for digest in known.values()):
            sets = known
        else:
            source = load_source(spec)
            outliers = [load_outliers(name, source) for name in plan.study.ood]
            samples = {plan.id: source.test, **{part.name: part for part in outliers}}
            sets = {name: part.digest for name, part in samples.items()}
            if known and sets != known:
                changed = next(name for name in sets if sets[name] != known.get(name))
                raise UserError(
                    f"'{changed}' is not what study '{study}' has scored: its content has changed."
                )
            for name, part in samples.items():
                if part.digest not in written:
                    taken = any(path.stem == _file_name(name) for path, _ in written.values())
                    stem = _file_name(name) + (f"-{part.digest[:8]}" if taken else "")
                    path = folder / f"{stem}.npz"
                    np.savez(path, inputs=part.values, labels=part.labels)
                    written[part.digest] = path, len(part)
        runs[run] = {
            name: {"digest": key, "file": written[key][0].name, "samples": written[key][1]}
            for name, key in sets.items()
        }
    listed = folder / SETS
    content = {"study": study, "id": plan.id, "runs": runs}
    listed.write_text(json.dumps(content, indent=1), encoding="utf-8")
    return [*(path for path, _ in written.values()), listed]


def _file_name(name: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "-_.=" else "_" for sign in name)[:100]
