"""Folders of files, one folder per class: images or texts, with train and test or without."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oodometer.errors import UserError
from oodometer.lab.data.readers.common import (
    ImageParts,
    Labelled,
    LabelledTexts,
    Request,
    TextParts,
    fault,
    read_all,
)
from oodometer.lab.data.readers.decoded import decode_once
from oodometer.lab.data.readers.pictures import SUFFIXES

# What the first level of folders is called if it divides a set; of several for a part, the first.
_TRAIN = ("train", "training", "images_background", "20news-bydate-train")
_TEST = (
    "test", "testing", "images_evaluation", "20news-bydate-test", "val", "valid", "validation",
)  # fmt: skip
_ENOUGH = 10_000  # files to check before a folder is said to contain none of a kind


def matches_images(path: Path) -> bool:
    """Whether this folder holds images, somewhere below."""
    return path.is_dir() and any(_is_image(name) for _, name in islice(_walk(path), _ENOUGH))


def images(path: Path, request: Request) -> ImageParts:
    """Each folder of images is a class, named by its path; folders called "images" do not count.

    Files that are not called like images are left alone; a file that is, and is none, is an error.
    """
    return {
        part: partial(_read_images, files, classes, request)
        for part, (files, classes) in _divide(path, _is_image).items()
    }


def matches_texts(path: Path) -> bool:
    """Whether this folder holds folders of plain texts, and no images."""
    if not path.is_dir():
        return False
    found = list(islice(_walk(path), 100))
    return any(_is_text(name) and folder != path for folder, name in found)


def texts(path: Path, request: Request) -> TextParts:
    """Each folder of texts is a class; UTF-8, or Latin-1 where it is not."""
    return {
        part: partial(_read_texts, files, classes)
        for part, (files, classes) in _divide(path, _is_text).items()
    }


def matches_tiny_imagenet(path: Path) -> bool:
    """Whether this is the folder tiny-imagenet-200 as it was published."""
    return (path / "val" / "val_annotations.txt").is_file() or (
        (path / "wnids.txt").is_file() and (path / "train").is_dir()
    )


def tiny_imagenet(path: Path, request: Request) -> ImageParts:
    """Tiny ImageNet: train by folder, the official validation part as test.

    The official test part has no labels, and is there for those who ask for it. Classes are
    numbered by their WordNet identifiers in alphabetical order.
    """
    found: dict[str, Callable[[], Labelled]] = {}
    if (path / "train").is_dir():
        found["train"] = partial(_read_tiny_train, path, request)
    if (path / "val" / "val_annotations.txt").is_file():
        found["test"] = partial(_read_tiny_validation, path, request)
    if (path / "test" / "images").is_dir():
        found["unlabelled"] = partial(_read_tiny_test, path / "test" / "images", request)
    return found


def _read_tiny_test(path: Path, request: Request) -> Labelled:
    """Read the official test part, whose labels were never published."""
    files = [folder / name for folder, name in _walk(path) if _is_image(name)]
    return _decode(path, files, np.full(len(files), -1), request)


def _read_tiny_train(path: Path, request: Request) -> Labelled:
    identifiers = _tiny_classes(path)
    files, labels = [], []
    for folder, name in _walk(path / "train"):
        if _is_image(name):
            identifier = folder.relative_to(path / "train").parts[0]
            if identifier not in identifiers:
                raise fault(folder / name, f"is of class {identifier}, which wnids.txt lacks")
            files.append(folder / name)
            labels.append(identifiers[identifier])
    return _decode(path / "train", files, np.array(labels, np.int64), request)


def _read_tiny_validation(path: Path, request: Request) -> Labelled:
    identifiers = _tiny_classes(path)
    annotations = path / "val" / "val_annotations.txt"
    files, labels = [], []
    for number, line in enumerate(_decoded(annotations).splitlines(), start=1):
        columns = line.split("\t")
        if len(columns) < 2 or columns[1] not in identifiers or "/" in columns[0]:
            raise fault(annotations, f"is damaged in line {number}: '{line[:60]}'")
        files.append(path / "val" / "images" / columns[0])
        labels.append(identifiers[columns[1]])
    return _decode(annotations, files, np.array(labels, np.int64), request)


def _tiny_classes(path: Path) -> dict[str, int]:
    listed = path / "wnids.txt"
    if listed.is_file():
        names = _decoded(listed).split()
    elif (path / "train").is_dir():
        names = [entry.name for entry in (path / "train").iterdir() if entry.is_dir()]
    else:
        annotations = path / "val" / "val_annotations.txt"
        names = [line.split("\t")[1] for line in _decoded(annotations).splitlines() if "\t" in line]
    return {name: number for number, name in enumerate(sorted(set(names)))}


def matches_food101(path: Path) -> bool:
    """Whether this is the folder food-101 as it was published."""
    return (path / "meta" / "test.txt").is_file() and (path / "images").is_dir()


def food101(path: Path, request: Request) -> ImageParts:
    """Food-101: images by folder, and lists that divide them."""
    return {
        part: partial(_read_listed, path, path / "meta" / f"{part}.txt", request)
        for part in ("train", "test")
        if (path / "meta" / f"{part}.txt").is_file()
    }


def _read_listed(path: Path, listed: Path, request: Request) -> Labelled:
    """Read the images "class/name" of a list; classes are all folders, by name."""
    folders = (entry.name for entry in (path / "images").iterdir() if entry.is_dir())
    classes = {name: number for number, name in enumerate(sorted(folders))}
    files, labels = [], []
    for line in _decoded(listed).splitlines():
        label, _, name = line.partition("/")
        if label not in classes or not name or "/" in name:
            raise fault(listed, f"names '{line[:60]}', which is not an image of a class")
        files.append(path / "images" / label / f"{name}.jpg")
        labels.append(classes[label])
    return _decode(listed, files, np.array(labels, np.int64), request)


def _divide(
    path: Path, wanted: Callable[[str], bool]
) -> dict[str, tuple[list[Path], NDArray[np.int64]]]:
    """Find the files of each part and their classes, numbered over all parts by name."""
    found = [(folder, name) for folder, name in _walk(path) if wanted(name)]
    if not found:
        raise UserError(f"Data folder '{path}' holds no files of the kind that is read here.")
    parts = _parts(found)
    classes = sorted({label for files in parts.values() for label in files.values()})
    numbers = {label: number for number, label in enumerate(classes)} | {"": -1}
    if "" in classes and len(classes) > 1:
        loose = next(file for files in parts.values() for file, label in files.items() if not label)
        raise fault(loose, "lies beside folders of classes and belongs to none of them")
    return {
        part: (list(files), np.array([numbers[label] for label in files.values()], np.int64))
        for part, files in parts.items()
    }


def _parts(found: Sequence[tuple[Path, str]]) -> dict[str, dict[Path, str]]:
    """Return the files of each part with the names of their classes, as their folders say."""
    top = Path(os.path.commonpath([folder for folder, _ in found]))
    steps = {folder / name: folder.relative_to(top).parts for folder, name in found}
    firsts = {first: first.lower() for first in (_first(parts) for parts in steps.values())}
    if not set(firsts.values()) <= {*_TRAIN, *_TEST}:
        return {"all": {file: _class_name(folders) for file, folders in steps.items()}}
    named = {lower: first for first, lower in firsts.items()}
    parts = {}
    for part, words in (("train", _TRAIN), ("test", _TEST)):
        folder = next((named[word] for word in words if word in named), None)
        if folder is not None:
            inside = {file: rest for file, (first, *rest) in steps.items() if first == folder}
            parts[part] = {file: _class_name(rest) for file, rest in inside.items()}
    return parts


def _first(folders: Sequence[str]) -> str:
    return folders[0] if folders else ""


def _class_name(folders: Iterable[str]) -> str:
    return "/".join(step for step in folders if step != "images")


def _walk(path: Path) -> Iterator[tuple[Path, str]]:
    """Every file below a folder, hidden ones left out, in an order that is always the same."""
    for folder, below, names in os.walk(path):
        below[:] = sorted(name for name in below if not name.startswith((".", "__MACOSX")))
        for name in sorted(names):
            if not name.startswith("."):
                yield Path(folder), name


def _is_image(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in SUFFIXES  # noqa: PTH122 - for 100,000 names


def _is_text(name: str) -> bool:
    return name.endswith(".txt") or name.isdigit()  # the 20 newsgroups number their posts


def _read_images(files: list[Path], labels: NDArray[np.int64], request: Request) -> Labelled:
    return _decode(files[0].parent, files, labels, request)


def _decode(path: Path, files: list[Path], labels: NDArray[np.int64], request: Request) -> Labelled:
    if not files:
        raise fault(path, "leads to no images")
    named = [(str(file), file) for file in files]
    pixels, kept = decode_once(named, request.size, request.tolerated)
    return Labelled(pixels, labels[kept])


def _read_texts(files: list[Path], labels: NDArray[np.int64]) -> LabelledTexts:
    return LabelledTexts(tuple(_decoded(file) for file in files), labels)


def _decoded(path: Path) -> str:
    content = read_all(path)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("latin-1")
