"""A BERT of two layers with random weights, made where transformers is installed."""

from __future__ import annotations

from pathlib import Path

import torch

WORDS = ["the", "of", "a", "and", "foot", "##ball", "goal", "bank", "mark", "##et", "atom", "gene"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", *WORDS, "##s"]
SIZE = {
    "vocab_size": len(PIECES), "hidden_size": 16, "num_hidden_layers": 2, "intermediate_size": 32,
    "num_attention_heads": 2, "max_position_embeddings": 40,
}  # fmt: skip


def save_encoder(folder: Path, kind: str = "BertModel", **changes: object) -> Path:
    """Save a model and its tokenizer into a folder."""
    import transformers

    from oodometer.lab.data.encoders import quiet_transformers

    with quiet_transformers(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = transformers.BertConfig(**(SIZE | changes))
        getattr(transformers, kind)(config).save_pretrained(folder)
        (folder / "vocab.txt").write_text("\n".join(PIECES))
        made = transformers.BertTokenizer(str(folder / "vocab.txt"), model_max_length=40)
        made.save_pretrained(folder)
    return folder
