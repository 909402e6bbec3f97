"""Outputs refuse, at birth, whatever would mislead a detector later."""

from __future__ import annotations

import copy
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import FrozenInstanceError, replace

import pytest
import torch

from oodometer.errors import UserError
from oodometer.needs import in_text, parse_needs
from oodometer.outputs import Head, Outputs
from oodometer.outputs.refusal import Refusal


def test_consistent_outputs_are_accepted(outputs):
    assert len(outputs) == 20
    assert in_text(outputs.available) == ["features", "head", "labels", "logits", "relative_logits"]


def test_logits_are_computed_if_left_out(outputs):
    made = replace(outputs, logits=None)
    assert torch.equal(made.logits, outputs.logits)


def test_whatever_is_missing_is_told(outputs):
    assert in_text(Outputs(logits=outputs.logits).available) == ["logits", "relative_logits"]
    assert in_text(Outputs(features=outputs.features).available) == ["features"]


def test_frozen(outputs):
    with pytest.raises(FrozenInstanceError):
        outputs.logits = None


def spoil(tensor: torch.Tensor, value: float) -> torch.Tensor:
    spoilt = tensor.clone()
    spoilt[7, 1] = value
    return spoilt


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda o: {"logits": o.logits + 0.1}, "logits differ from head.features. by 0.1 at row"),
        (lambda o: {"logits": spoil(o.logits, 9.0)}, "at row 7 "),
        (lambda o: {"features": o.features.relu()}, "exactly what enters the last linear layer"),
        (lambda o: {"logits": spoil(o.logits, torch.nan)}, "1 of 20 rows hold NaN.*at row 7"),
        (lambda o: {"features": spoil(o.features, torch.inf)}, "features must be finite"),
        (lambda o: {"logits": o.logits[:19]}, "one row per sample.*logits 19, features 20"),
        (lambda o: {"labels": o.labels[:5]}, "labels 5"),
        (lambda o: {"labels": o.labels + 1}, r"labels must lie in 0..2, or be -1.*got 3"),
        (lambda o: {"labels": o.labels - 2}, "got -2"),
        (lambda o: {"labels": o.labels + 0.5}, "labels must be a vector of integers, but 20 of 20"),
        (lambda o: {"labels": o.labels * 1j}, "labels must be a vector of integers"),
        (lambda o: {"features": o.features.float()}, "one floating type, but.*features is float32"),
        (
            lambda o: {"logits": o.logits.to(torch.int32)},
            "logits must be float32 or float64, got int32",
        ),
        (lambda o: {"logits": o.logits[:, :2]}, "logits have 2 classes but head.weight has 3"),
        (
            lambda o: {"features": o.features[:, :3]},
            "features have width 3 but head.weight takes 4",
        ),
        (lambda o: {"logits": o.logits[0]}, "logits must have 2 dimensions"),
        (lambda o: {"logits": None, "features": None}, "need logits or features"),
        (lambda o: {"logits": [[1.0]]}, "logits must be a tensor or an array of numbers, got list"),
        (lambda o: {"head": (1, 2)}, r"head must be a Head\(weight, bias\), got tuple"),
        (lambda o: {"layers": {"a": torch.tensor(1.0)}}, "is a single number"),
    ],
)
def test_refusals_name_what_is_wrong(outputs, change, sentence):
    with pytest.raises(UserError, match=sentence):
        replace(outputs, **change(outputs))


def test_head_must_fit_itself():
    with pytest.raises(UserError, match="head.weight has 3 rows but head.bias has 2"):
        Head(torch.zeros(3, 4), torch.zeros(2))


def test_rounding_of_a_float32_pass_is_accepted():
    rng = torch.Generator().manual_seed(1)
    features = 100 * torch.randn(500, 2048, generator=rng)
    head = Head(torch.randn(1000, 2048, generator=rng), torch.randn(1000, generator=rng))
    one_by_one = torch.cat([head(row[None]) for row in features[:50]])
    assert len(Outputs(one_by_one, features[:50], None, head)) == 50


def test_view_shows_only_what_is_declared(outputs):
    view = outputs.only(parse_needs({"logits"}), "mine")
    assert view.logits is outputs.logits and len(view) == 20
    with pytest.raises(UserError, match=r"'mine' read outputs.features: declare needs="):
        _ = view.features
    with pytest.raises(UserError, match="labels are shown for fitting only"):
        _ = view.labels
    with pytest.raises(UserError, match="'mine' read outputs.head"):
        _ = view.head
    with pytest.raises(UserError, match="'mine' needs features, which these outputs lack"):
        _ = Outputs(logits=outputs.logits).only(parse_needs({"features"}), "mine").features


def test_take_keeps_rows_together(outputs):
    part = outputs.take(torch.tensor([3, 1]))
    assert torch.equal(part.features, outputs.features[[3, 1]])
    assert part.labels.tolist() == [0, 1]


def test_arrays_of_other_frameworks_become_tensors(outputs):
    made = Outputs(
        outputs.logits.numpy(), outputs.features.numpy(), outputs.labels.numpy().astype("uint8"),
        Head(outputs.head.weight.numpy(), outputs.head.bias.numpy()),
    )  # fmt: skip
    assert torch.equal(made.logits, outputs.logits) and made.labels.dtype == torch.int64


def test_probes_are_shown_only_to_those_who_declare_them():
    outputs = Outputs(torch.zeros(3, 2), probes={"dropout": torch.ones(3, 4, 2)})
    assert "probe:dropout" in in_text(outputs.available)
    assert outputs.only(parse_needs({"probe:dropout"}), "mine").probe("dropout").shape == (3, 4, 2)
    assert outputs.take(torch.tensor([1])).probes["dropout"].shape == (1, 4, 2)
    with pytest.raises(UserError, match="declare needs="):
        outputs.only(parse_needs({"logits"}), "mine").probe("dropout")
    with pytest.raises(UserError, match="needs the probe 'noise', which these outputs lack"):
        outputs.only(parse_needs({"probe:noise"}), "mine").probe("noise")
    with pytest.raises(UserError, match=r"rows differ: logits 3, probes\['dropout'\] 2"):
        Outputs(torch.zeros(3, 2), probes={"dropout": torch.ones(2, 4)})


def _from_another_process(outputs: Outputs) -> Outputs:
    return replace(outputs, layers={"block": 2 * outputs.layers["block"]})


def test_outputs_are_copied_and_sent_to_processes(outputs):
    """Mapping proxies can be neither copied nor sent: a copy is made anew, with its own arrays."""
    whole = replace(outputs, layers={"block": torch.ones_like(outputs.logits)})
    copied = copy.deepcopy(whole)
    assert torch.equal(copied.logits, whole.logits)
    assert copied.logits.data_ptr() != whole.logits.data_ptr()
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        back = pool.submit(_from_another_process, whole).result()
    assert torch.equal(back.layers["block"], 2 * whole.layers["block"])
    assert torch.equal(back.labels, whole.labels)


def test_what_is_shared_is_computed_once_and_not_by_copies():
    outputs = Outputs(torch.zeros(3, 2))
    made = []
    for part in (outputs, outputs, outputs.copy()):
        part.only(parse_needs({"logits"}), "mine").shared("sum", lambda: made.append(1))
    assert len(made) == 2


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16])
def test_numbers_that_came_through_a_narrower_type_are_no_wrong_features(kind):
    # As by way of lists, or of NumPy, which has no bfloat16: in full, but rounded in between.
    generator = torch.Generator().manual_seed(0)
    features, weight = (torch.randn(n, 50, generator=generator).to(kind) for n in (30, 5))
    logits = features @ weight.T
    wide = torch.float64 if kind == torch.float32 else torch.float32
    head = Head(weight.to(wide), torch.zeros(5, dtype=wide))
    made = Outputs(logits.to(wide), features.to(wide), head=head)
    assert torch.equal(made.logits, logits.to(wide))
    with pytest.raises(UserError, match="logits differ from head"):
        Outputs(logits.to(wide), features.to(wide).relu(), head=head)


def test_copies_are_not_checked_again(outputs, monkeypatch):
    """Of what a user's detector reads, each fit and each score makes one."""
    monkeypatch.setattr(Outputs, "__post_init__", lambda self: pytest.fail("checked again"))
    own = outputs.refusing({"labels": Refusal("for no reason")}).copy()
    assert own.refused["labels"].reason == "for no reason"
    for name, tensor in own.tensors().items():
        assert torch.equal(tensor, outputs.tensors()[name])
        assert tensor.data_ptr() != outputs.tensors()[name].data_ptr()
