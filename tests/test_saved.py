"""Saved outputs as people have them: any framework's names, types, shapes and files."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet
from safetensors.torch import save_file

from oodometer.errors import UserError
from oodometer.saved import files, load_outputs

CLASSES, WIDTH, ROWS = 4, 8, 30


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    weight, bias = rng.normal(size=(CLASSES, WIDTH)), rng.normal(size=CLASSES)
    labels = np.arange(ROWS) % CLASSES
    features = weight[labels] + rng.normal(size=(ROWS, WIDTH))
    logits = features @ weight.T + bias
    return {
        "features": features,
        "logits": logits,
        "labels": labels,
        "weight": weight,
        "bias": bias,
    }


def read(tmp_path, content, name="train", **others):
    """Save and read again; return the outputs and what was told."""
    np.savez(tmp_path / f"{name}.npz", **content)
    told = []
    made = load_outputs({name: tmp_path / f"{name}.npz", **others}, told.append)
    return made[name], " ".join(told)


@pytest.mark.parametrize(
    ("change", "near"),
    [
        (lambda a: a.astype("f4"), 1e-6),
        (lambda a: a.astype("f2"), 1e-2),
        (lambda a: a.astype(">f8"), 0),
        (lambda a: a.astype(np.longdouble), 0),
        (np.asfortranarray, 0),
    ],
)
def test_any_type_and_order_of_numbers(tmp_path, arrays, change, near):
    made, _ = read(tmp_path, {k: v if k == "labels" else change(v) for k, v in arrays.items()})
    for name in ("features", "logits"):
        values = getattr(made, name).double().numpy()
        np.testing.assert_allclose(values, arrays[name], rtol=near, atol=20 * near)
    assert made.labels.tolist() == arrays["labels"].tolist()


def test_mixed_types_become_the_narrowest(tmp_path, arrays):
    for single in ("features", "logits", "weight"):
        made, _ = read(tmp_path, arrays | {single: arrays[single].astype("f4")})
        assert {t.dtype for n, t in made.tensors().items() if n != "labels"} == {torch.float32}
    np.savez(tmp_path / "id.npz", features=arrays["features"].astype("f4"))
    np.savez(tmp_path / "train.npz", **arrays)
    both = load_outputs({"train": tmp_path / "train.npz", "id": tmp_path / "id.npz"})
    assert both["train"].features.dtype == both["id"].logits.dtype == torch.float32


@pytest.mark.parametrize(
    "change",
    [
        lambda y: y.astype("i4"),
        lambda y: y.astype("u1"),
        lambda y: y.astype("f4"),
        lambda y: y[:, None],
        lambda y: np.eye(CLASSES)[y],
    ],
)
def test_labels_of_any_form(tmp_path, arrays, change):
    made, _ = read(tmp_path, arrays | {"labels": change(arrays["labels"])})
    assert made.labels.tolist() == arrays["labels"].tolist()


def test_labels_of_outliers_are_left_alone(tmp_path, arrays):
    for labels in (np.arange(ROWS) + 100, np.array(["x"] * ROWS), np.array([None] * ROWS)):
        made, _ = read(tmp_path, arrays | {"labels": labels}, name="textures")
        assert made.labels is None


@pytest.mark.parametrize(
    "names",
    [
        {"logits": "output", "features": "feats", "labels": "y"},
        {"logits": "preds", "features": "embeddings", "labels": "targets"},
        {"logits": "Logits", "features": "train_features", "labels": "y_true"},
        {"weight": "fc.weight", "bias": "fc.bias"},
        {"weight": "W", "bias": "b"},
    ],
)
def test_what_others_call_them_is_taken_and_told(tmp_path, arrays, names):
    wanted, silent = read(tmp_path, arrays | {"paths": np.array(["a"]), "logits_raw": np.ones(3)})
    made, told = read(tmp_path, {names.get(k, k): v for k, v in arrays.items()})
    assert not silent
    for name, tensor in wanted.tensors().items():
        assert torch.equal(made.tensors()[name], tensor), name
    assert all(f"using '{other}' as {name}" in told for name, other in names.items())


def test_turned_weights_and_pooled_maps(tmp_path, arrays):
    wanted, _ = read(tmp_path, arrays)
    turned, told = read(tmp_path, arrays | {"weight": arrays["weight"].T})
    assert torch.equal(turned.head.weight, wanted.head.weight)
    assert "weight of shape (8, 4) is transposed" in told
    maps = {"features": arrays["features"][:, :, None, None]}
    assert torch.equal(read(tmp_path, arrays | maps)[0].features, wanted.features)


def test_probabilities_are_told_from_logits(tmp_path, arrays):
    powers = np.exp(arrays["logits"])
    shares = powers / powers.sum(1, keepdims=True)
    for given, words in ((shares, "are probabilities"), (np.log(shares), "are log-probabilities")):
        alone, told = read(tmp_path, {"logits": given})
        np.testing.assert_allclose(alone.logits.softmax(1).numpy(), shares)
        assert words in told and "such as energy and max_logit, are left out" in told
        assert alone.refused["logits"].reason.startswith(f"the logits {words}")
        # With features and head, what they came from is known.
        whole, told = read(tmp_path, arrays | {"logits": given})
        np.testing.assert_allclose(whole.logits.numpy(), arrays["logits"])
        assert words in told and "computed from features" in told
    assert not read(tmp_path, {"logits": arrays["logits"]})[1]


@pytest.mark.parametrize("kind", ["lists", "fixed", "numbered", "from one", "brackets"])
def test_parquet_gives_what_npz_gives(tmp_path, arrays, kind):
    own = {"labels": pa.array(arrays["labels"])}
    for name in ("logits", "features"):
        values = arrays[name]
        if kind == "lists":
            own[name] = pa.array(values.tolist())
        elif kind == "fixed":
            flat = pa.array(values.ravel())
            own[name] = pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
        else:
            form = {"numbered": "{}_{:02}", "from one": "{}_{}", "brackets": "{}[{}]"}[kind]
            for column in range(values.shape[1]):
                number = column + (kind == "from one")
                own[form.format(name, number)] = pa.array(values[:, column])
    for name in ("weight", "bias"):  # in the first rows, one per class
        rest = [None] * (ROWS - CLASSES)
        own[name] = pa.array(arrays[name].tolist() + rest)
    parquet.write_table(pa.table(own), tmp_path / "train.parquet", row_group_size=7)
    made = load_outputs({"train": tmp_path / "train.parquet"})["train"]
    wanted, _ = read(tmp_path, arrays)
    for name, tensor in wanted.tensors().items():
        assert torch.equal(made.tensors()[name], tensor), name
    # A folder of parts, as Spark and others write it.
    folder = tmp_path / "parts.parquet"
    folder.mkdir()
    table = pa.table({name: own[name] for name in own if name not in ("weight", "bias")})
    for part, start in enumerate(range(0, ROWS, 10)):
        parquet.write_table(table.slice(start, 10), folder / f"{part}.parquet")
    assert torch.equal(load_outputs({"train": folder})["train"].features, wanted.features)


def test_large_files_are_mapped(tmp_path, arrays, monkeypatch):
    monkeypatch.setattr(files, "_MAPPED", 1)
    single = {k: v if k == "labels" else v.astype("f4") for k, v in arrays.items()}
    wanted, _ = read(tmp_path, single)
    save_file({k: torch.from_numpy(v) for k, v in single.items()}, tmp_path / "a.safetensors")
    (tmp_path / "folder").mkdir()
    for name, values in single.items():
        np.save(tmp_path / "folder" / f"{name}.npy", values)
    for path in (tmp_path / "a.safetensors", tmp_path / "folder"):
        shelf = files.open_file(path)
        assert isinstance(shelf["features"](), np.memmap)
        made = load_outputs({"train": path})["train"]
        for name, tensor in wanted.tensors().items():
            assert torch.equal(made.tensors()[name], tensor), name
    assert isinstance(files.open_file(tmp_path / "train.npz")["features"](), np.memmap)
    fortran = np.asfortranarray(single["features"])
    made, _ = read(tmp_path, single | {"features": fortran}, name="id")
    assert torch.equal(made.features, wanted.features)
    content = bytearray((tmp_path / "train.npz").read_bytes())
    content[len(content) // 3] ^= 255
    (tmp_path / "damaged.npz").write_bytes(content)
    with pytest.raises(UserError, match="Bad CRC-32"):
        load_outputs({"train": tmp_path / "damaged.npz"})


def test_half_precision_in_safetensors(tmp_path):
    save_file({"logits": torch.ones(3, 2, dtype=torch.bfloat16)}, tmp_path / "x.safetensors")
    assert load_outputs({"a": tmp_path / "x.safetensors"})["a"].logits.dtype == torch.float32


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"logits": None, "features": None, "lgoits": 1}, "'lgoits'. Did you mean 'logits'"),
        ({"logits": None, "features": None, "x": 1}, "holds neither logits nor features, but"),
        ({"features": None, "one_features": 1, "two_features": 1}, "could be the features: one_fe"),
        ({"logits": np.array([["a"]])}, "must hold numbers"),
        ({"logits": np.ones(ROWS)}, r"numpy.stack\(\[0 \* z, z\]"),
        ({"logits": np.array(1.0)}, "are a single number"),
        ({"logits": np.ones((ROWS, CLASSES), int)}, "must be float32 or float64, got int64"),
        ({"logits": np.array([None] * ROWS)}, "could run code"),
        ({"logits": np.full((ROWS, CLASSES), np.nan)}, "must be finite, but 30 of 30 rows"),
        ({"features": np.ones((ROWS, WIDTH, 3, 3))}, "pooling or flattening first"),
        ({"features": np.ones((ROWS, WIDTH - 1))}, "width 7 but head.weight takes 8"),
        ({"features": np.ones((ROWS - 1, WIDTH))}, "the rows differ"),
        ({"labels": np.array(["cat"] * ROWS)}, "are texts such as cat"),
        ({"labels": np.arange(ROWS) % CLASSES + 1}, "classes are counted from 0"),
        ({"labels": np.full(ROWS, 0.5)}, "labels must be a vector of integers, but 30 of 30"),
    ],
)
def test_arrays_that_are_none_of_these(tmp_path, arrays, change, words):
    content = {
        name: np.ones((ROWS, WIDTH)) if isinstance(value, int) else value
        for name, value in (arrays | change).items()
        if value is not None
    }
    with pytest.raises(UserError, match=words) as caught:
        read(tmp_path, content)
    assert "\n" not in str(caught.value)


def test_a_folder_with_python_objects_or_another_file_is_refused(tmp_path, arrays):
    for content, words in (
        (np.array([None] * ROWS), "it holds Python objects, which are not read because"),
        (b"no array", "the magic string is not correct"),
    ):
        folder = tmp_path / words[:6].strip()
        folder.mkdir()
        np.save(folder / "features.npy", arrays["features"])
        if isinstance(content, bytes):
            (folder / "logits.npy").write_bytes(content)
        else:
            np.save(folder / "logits.npy", content)
        with pytest.raises(UserError, match=words):
            load_outputs({"train": folder})


def test_files_that_are_none_of_these(tmp_path, arrays):
    class Bomb:
        def __reduce__(self):
            return open, (str(tmp_path / "exploded"), "w")

    for name in ("a.pkl", "a.npz", "a.pt"):
        (tmp_path / name).write_bytes(pickle.dumps(Bomb()))
    np.save(tmp_path / "a.npy", arrays["logits"])
    (tmp_path / "b.npz").write_bytes((tmp_path / "a.npy").read_bytes())
    (tmp_path / "empty").mkdir()
    for name in ("c.npz", "c.parquet", "c.safetensors"):
        (tmp_path / name).write_bytes(b"no such thing")
    for name, words in {
        "a.pkl": "can hold code, and is not read",
        "a.pt": "can hold code, and is not read",
        "a.npz": "cannot be read as npz",
        "a.npy": "a single array without a name",
        "b.npz": "cannot be read as npz",
        "c.npz": "cannot be read as npz",
        "c.parquet": "cannot be read as parquet",
        "c.safetensors": "cannot be read as safetensors",
        "a.h5": "is none of these",
        "empty": "holds no .npy files",
        "none.npz": "does not exist",
        "none": "does not exist",
    }.items():
        with pytest.raises(UserError, match=words) as caught:
            load_outputs({"train": tmp_path / name})
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([[1.0], [1.0, 2.0, 3.0]], "differ in length"),
        ([[1.0, 2.0], None], "empty cells"),
        ([[1.0, 2.0], [None, 1.0]], "empty cells"),
        ([{"a": 1.0}, {"a": 2.0}], "must hold numbers"),
        (["1 2", "3 4"], "must hold numbers"),
    ],
)
def test_columns_that_are_no_arrays(tmp_path, rows, words):
    parquet.write_table(pa.table({"logits": pa.array(rows)}), tmp_path / "a.parquet")
    with pytest.raises(UserError, match=words):
        load_outputs({"train": tmp_path / "a.parquet"})
    frame = pd.DataFrame({"features_0": [1.0, 2.0], "features_2": [1.0, 2.0]})
    frame.to_parquet(tmp_path / "b.parquet")
    with pytest.raises(UserError, match="lacks some of the columns features_0 to features_2"):
        load_outputs({"train": tmp_path / "b.parquet"})
