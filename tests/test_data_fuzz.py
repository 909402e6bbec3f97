"""Whatever the bytes: data, or one sentence. Files of each format, cut and flipped at random."""

from __future__ import annotations

from pathlib import Path

import data_files as files
import numpy as np
import pytest

from oodometer.errors import UserError
from oodometer.lab.data.readers import FORMATS, Request

MUTATIONS = 200


def npz(folder: Path) -> None:
    np.savez_compressed(folder / "x.npz", images=files.pixels(4, 5, 5), labels=np.arange(4))


def csv(folder: Path) -> None:
    rows = [f"{k % 3},title {k} of these,text {k} of these many" for k in range(9)]
    (folder / "x.csv").write_text("\n".join(rows))


def jsonl(folder: Path) -> None:
    files.write_jsonl(folder / "x.jsonl.gz", [{"text": f"t{k}", "label": k} for k in range(5)])


# name -> (format, writer, the file to spoil, what the reader is given)
CASES = {
    "idx": ("idx", files.write_idx, "t10k-images-idx3-ubyte", "."),
    "idx.gz": ("idx", lambda f: files.write_idx(f, gz=True), "t10k-images-idx3-ubyte.gz", "."),
    "labels": ("idx", files.write_idx, "t10k-labels-idx1-ubyte", "."),
    "cifar-binary": ("cifar", files.write_cifar_binary, "test_batch.bin", "."),
    "cifar-python": (
        "cifar",
        lambda f: files.write_cifar_python(f, count=1, two=False, protocol=2),
        "test_batch",
        ".",
    ),
    "cifar-python-2": ("cifar", lambda f: files.write_cifar_python(f, count=1), "test_batch", "."),
    "svhn": ("svhn", files.write_svhn, "test_32x32.mat", "."),
    "svhn-compressed": ("svhn", files.write_svhn, "train_32x32.mat", "train_32x32.mat"),
    "stl10": ("stl10", files.write_stl10, "test_y.bin", "."),
    "usps": ("usps", files.write_usps, "usps.t.bz2", "."),
    "npz": ("npz", npz, "x.npz", "x.npz"),
    "images": ("images", files.write_images, "dog/2.png", "."),
    "tiny-imagenet": (
        "tiny-imagenet", files.write_tiny_imagenet, "val/val_annotations.txt", ".",
    ),
    "jpeg": ("tiny-imagenet", files.write_tiny_imagenet, "val/images/val_0.JPEG", "."),
    "parquet": (
        "parquet",
        lambda f: files.write_parquet(f / "x.parquet", 3, label=[0, 1, 2]),
        "x.parquet",
        "x.parquet",
    ),
    "csv": ("table", csv, "x.csv", "x.csv"),
    "jsonl": ("table", jsonl, "x.jsonl.gz", "x.jsonl.gz"),
    "newsgroups": (
        "newsgroups",
        lambda f: files.write_newsgroups(f / "20news.pkz"),
        "20news.pkz",
        "20news.pkz",
    ),
}  # fmt: skip


def spoil(content: bytes, rng: np.random.Generator) -> bytes:
    """Cut, flip bytes near the start or anywhere, or put a run of one byte somewhere."""
    spoilt = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        reach = len(spoilt) if rng.random() < 0.5 else min(len(spoilt), 200)
        if not reach:
            break
        at = int(rng.integers(reach))
        choice = rng.random()
        if choice < 0.3:
            del spoilt[at:]
        elif choice < 0.8:
            spoilt[at] ^= int(rng.integers(1, 256))
        else:
            spoilt[at : at + int(rng.integers(1, 9))] = bytes([int(rng.integers(256))]) * 4
    return bytes(spoilt)


@pytest.mark.parametrize("case", CASES)
def test_spoilt_files_give_data_or_a_sentence(tmp_path, case):
    format, write, spoilt, given = CASES[case]
    folder = tmp_path / "set"
    folder.mkdir()
    write(folder)
    file = folder / spoilt
    whole = file.read_bytes()
    known = FORMATS[format]
    rng = np.random.default_rng(sum(case.encode()))
    refused = 0
    for round in range(MUTATIONS + 1):
        file.write_bytes(spoil(whole, rng) if round else whole)
        try:
            parts = known.parts(folder / given, Request())
            part = parts["test"] if "test" in parts else next(iter(parts.values()))
            found = part()
            content = found.texts if hasattr(found, "texts") else found.pixels
            assert len(content) == len(found.labels)
        except UserError as problem:
            assert round, f"the whole file is refused: {problem}"
            assert "\n" not in str(problem) and str(tmp_path) in str(problem)
            refused += 1
    assert refused > MUTATIONS / 20, "hardly anything was noticed"
