"""The grammar of needs: what is written is what is read, and what is wrong gets one sentence."""

from __future__ import annotations

import pytest

from oodometer.errors import UserError
from oodometer.needs import ENSEMBLE, LAYERS, OUTLIERS, Need, in_text, parse_needs


@pytest.mark.parametrize("text", ["inputs", "images"])
def test_who_needs_inputs_learns_where_these_are(text):
    with pytest.raises(UserError, match=r"class with fit\(images\) and score\(images\)"):
        Need.parse(text)


@pytest.mark.parametrize(
    ("text", "need"),
    [
        ("logits", Need("outputs", "logits")),
        ("head", Need("outputs", "head")),
        ("layers", LAYERS),
        ("outliers", OUTLIERS),
        ("probe:odin", Need("probe", "odin")),
        ("model:binary", Need("model", "binary")),
        ("model:binary/a/b c", Need("model", "binary", "a/b c")),
        ("runs:ensemble", ENSEMBLE),
    ],
)
def test_a_need_is_read_as_it_is_written(text, need):
    assert Need.parse(text) == need
    assert str(need) == text


@pytest.mark.parametrize(
    "text",
    [
        "probe",
        "probe:",
        "probe:a/b",
        "model:",
        "model:/b",
        "model:a/",
        "runs:b",
        "runs:ensemble/a",
        "inputs:a",
        "logits:a",
        "layers:a",
        "outliers:a",
    ],
)
def test_whatever_else_is_refused_with_what_is_known(text):
    with pytest.raises(UserError, match=f"^Unknown need of 'me' '{text}'.* Known: features, head"):
        Need.parse(text, "need of 'me'")


def test_the_nearest_match_is_named():
    with pytest.raises(UserError, match="Did you mean 'logits'"):
        Need.parse("logit")
    with pytest.raises(UserError, match="needs must be a set of names, such as {'logits'}"):
        parse_needs("logits")


def test_needs_have_an_order_and_say_who_answers():
    needs = parse_needs({"probe:b", "probe:a", "layers", "labels", "model:a", "runs:ensemble"})
    assert in_text(sorted(needs)) == in_text(needs)
    assert sorted(map(str, needs)) == in_text(needs)
    assert in_text(n for n in needs if n.of_classifier) == [
        "labels", "layers", "probe:a", "probe:b",
    ]  # fmt: skip
    assert in_text(n for n in needs if not n.beyond_outputs) == ["labels"]
