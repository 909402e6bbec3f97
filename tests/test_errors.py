"""The nearest name, against an independent edit distance."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from oodometer.errors import UserError, _edits, nearest, unknown
from oodometer.imports import import_object

OPTIMIZERS = ["adadelta", "adagrad", "adam", "adamax", "adamw", "nadam", "rmsprop", "sgd"]


def brute_force(first: str, second: str) -> int:
    """The recurrence as it is printed (optimal string alignment), without a table."""

    @lru_cache(None)
    def edits(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        ways = [edits(i - 1, j) + 1, edits(i, j - 1) + 1]
        ways.append(edits(i - 1, j - 1) + (first[i - 1] != second[j - 1]))
        if i > 1 and j > 1 and first[i - 2 : i] == second[j - 2 : j][::-1]:
            ways.append(edits(i - 2, j - 2) + 1)
        return min(ways)

    return edits(len(first), len(second))


def test_edits_are_counted_as_by_brute_force():
    rng = np.random.default_rng(0)
    for _ in range(500):
        first, second = ("".join(rng.choice(list("abc"), rng.integers(8))) for _ in range(2))
        assert _edits(first, second) == brute_force(first, second), (first, second)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("adma", "adam"),
        ("ADAM", "adam"),
        ("adamm", "adam"),
        ("adagrda", "adagrad"),
        ("rmspro", "rmsprop"),
        ("rms", "rmsprop"),  # a prefix
        ("sdg", "sgd"),
        ("zzz", None),
        ("", None),
    ],
)
def test_the_nearest_name(wrong, meant):
    assert nearest(wrong, OPTIMIZERS) == meant


def test_the_sentence_and_no_suggestion_without_candidates():
    assert "Did you mean 'adam'?" in str(unknown("optimizer", "adma", OPTIMIZERS))
    assert str(unknown("study", "x", [])) == "Unknown study 'x'. Known: none."


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("leaving:anything", "Thing 'leaving:anything' could not be imported: SystemExit: 3."),
        ("leaving.py:any", "Thing 'leaving.py:any' could not be imported: SystemExit: 3."),
        ("own:anything", "Thing 'own:anything' could not be imported: Own: no."),
        ("here:Kind.mehtod", "Thing 'here:Kind.mehtod' does not exist: 'here' has nothing called "
         "'Kind.mehtod'. Did you mean 'method'?"),
        ("absent.py:a", "Thing 'absent.py:a' could not be imported: the file '{}/absent.py' does "
         "not exist."),
        ("leavin.py:a", "Thing 'leavin.py:a' could not be imported: the file '{0}/leavin.py' does "
         "not exist. Did you mean '{0}/leaving.py'?"),
        ("here", "Thing 'here' must be written as package.module:object or file.py:object."),
    ],
)  # fmt: skip
def test_what_cannot_be_imported_is_a_sentence(tmp_path, monkeypatch, name, sentence):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "leaving.py").write_text("raise SystemExit(3)")
    (tmp_path / "own.py").write_text("class Own(BaseException): ...\nraise Own('no')\n")
    (tmp_path / "here.py").write_text("class Kind:\n    def method(self): ...\n")
    with pytest.raises(UserError) as caught:
        import_object("Thing", name)
    assert str(caught.value) == sentence.format(tmp_path)


def test_objects_are_imported_by_module_and_by_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two_ways_of_import.py").write_text("class Kind:\n    value = 3\n")
    assert import_object("Thing", "two_ways_of_import:Kind.value") == 3
    assert import_object("Thing", "two_ways_of_import.py:Kind.value") == 3
