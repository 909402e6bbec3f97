"""A submission: the scores of one detector on a suite, with digests and versions; one file.

It is a score table in Parquet, which `oodometer compare` reads too; what makes it a submission is
JSON in the schema's metadata. Reading one runs none of its author's code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import oodometer
from oodometer.engine.lead.run import run_study
from oodometer.engine.plan.study_index import Outcome
from oodometer.engine.stores import Store
from oodometer.engine.versions import SCORING, versions_of
from oodometer.engine.work.codecs import bytes_to_table
from oodometer.errors import UserError
from oodometer.files import most_unpacked
from oodometer.score_files import table_from_bytes, table_to_bytes
from oodometer.scores import ScoreTable
from oodometer.study import Study
from oodometer.suites.suite import Digests, Suite, differences, sets_of

ENDING = ".parquet"
_NAME = b"oodometer-submission"
_VERSION = 1
LARGEST = 1 << 28  # bytes of a file that is read
_LONGEST = 20_000_000  # bytes of what it says of itself


@dataclass(frozen=True)
class Submission:
    """Scores of one detector on a suite."""

    suite: str  # name of its study
    key: str  # of the suite
    detector: str
    sets: Digests
    versions: Mapping[str, str]
    table: ScoreTable


def score_suite(
    suite: Suite, detector: str, store: Store, *, workers: int | None = None
) -> Submission:
    """Score a detector on a suite; the store keeps what can be reused, such as the classifiers."""
    found = sets_of(suite.study)
    problem = differences(suite.sets, found)
    if problem:
        raise UserError(f"The data here are not those of suite '{suite.study.name}': {problem}.")
    searches = suite.study.searches
    study = suite.study.model_copy(
        # Another name: the study itself may be in the same store. Searches are against the detector
        # that is scored, whichever the study names.
        update={
            "name": f"{suite.study.name[:90]} suite",
            "detectors": (detector,),
            "ours": "",
            "searches": searches and searches.model_copy(update={"detectors": "all"}),
        }
    )
    outcome = run_study(Study.model_validate(study.model_dump()), store, workers=workers)
    table = bytes_to_table(store.view("tables", outcome.table_key))
    return Submission(
        suite.study.name,
        suite.key,
        _only_detector(table, outcome),
        suite.sets,
        {"oodometer": oodometer.__version__, **versions_of(SCORING)},
        table,
    )


def _only_detector(table: ScoreTable, outcome: Outcome) -> str:
    if len(table.detectors) == 1:
        return table.detectors[0]
    reasons = [str(part) for part in outcome.missing if part.failure] or ["nothing was scored"]
    raise UserError(f"The detector could not be scored: {reasons[0]}.")


def write_submission(made: Submission, path: Path) -> Path:
    """Write a submission to a file."""
    about = {
        "version": _VERSION,
        "suite": made.suite,
        "key": made.key,
        "detector": made.detector,
        "sets": {run: dict(own) for run, own in made.sets.items()},
        "versions": dict(made.versions),
    }
    arrow = pq.read_table(pa.BufferReader(table_to_bytes(made.table)), use_threads=False)
    metadata = {**(arrow.schema.metadata or {}), _NAME: json.dumps(about)}
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(arrow.replace_schema_metadata(metadata), temporary, compression="zstd")
        temporary.replace(path)
    except OSError as problem:
        temporary.unlink(missing_ok=True)
        raise UserError(f"Cannot write '{path}': {problem.strerror or problem}.") from None
    return path


def read_submission(path: Path) -> Submission:
    """Read a submission; whatever is wrong with it is a UserError of one sentence."""
    payload = _payload(path)
    about = _about(payload)
    try:
        sets = {str(run): {str(k): str(v) for k, v in own.items()}
                for run, own in about["sets"].items()}  # fmt: skip
        made = Submission(
            str(about["suite"]),
            str(about["key"]),
            str(about["detector"]),
            sets,
            {str(name): str(version) for name, version in about["versions"].items()},
            table_from_bytes(payload),
        )
    except (KeyError, TypeError, AttributeError):
        raise UserError("it lacks its suite, digests, detector or versions.") from None
    if made.table.detectors != (made.detector,):
        raise UserError(f"it names detector '{made.detector[:60]}', but has scores of others.")
    return made


def _payload(path: Path) -> bytes:
    """Read a file of a size that submissions have."""
    if path.is_symlink() or not path.is_file():  # reading a pipe may never end
        raise UserError("it is not a file, but a link, a folder, a pipe or a device.")
    try:
        if path.stat().st_size > LARGEST:
            raise UserError(f"it is larger than {LARGEST >> 20} MB.")
        return path.read_bytes()
    except OSError as problem:
        raise UserError(f"it cannot be read: {problem.strerror or problem}.") from None


def _about(payload: bytes) -> dict[str, Any]:
    """Return what a submission says of itself, before any of its scores are unpacked."""
    try:
        file = pq.ParquetFile(pa.BufferReader(payload))
        said = file.schema_arrow.metadata or {}
        long = sum(map(len, said.values())) > _LONGEST
        about = None if long else json.loads(said.get(_NAME, b"null"))
        of_table = None if long else json.loads(said.get(b"oodometer", b"null"))
        groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    except (pa.ArrowException, ValueError, OSError, RecursionError):
        raise UserError("it is not a Parquet file.") from None
    if long:
        raise UserError(f"what it says of itself is longer than {_LONGEST:,} bytes.")
    values = sum(part.column(n).num_values for part in groups for n in range(part.num_columns))
    unpacked = max(8 * values, sum(part.total_byte_size for part in groups))
    sizes = of_table.get("correct_sizes") if isinstance(of_table, dict) else None
    if isinstance(sizes, dict):  # they say how much room is taken
        unpacked += sum(abs(size) for size in sizes.values() if isinstance(size, int))
    if unpacked > most_unpacked(len(payload)):
        raise UserError(f"its {len(payload):,} bytes would unpack to {unpacked:,}.")
    if not isinstance(about, dict) or about.pop("version", None) != _VERSION:
        raise UserError("it is not a submission: 'oodometer suite score' writes them.")
    return about
