"""A pretrained encoder of texts with a linear head."""

from __future__ import annotations

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from oodometer.errors import UserError
from oodometer.lab.data.encoders import encoder_folder, quiet_transformers
from oodometer.lab.data.vocabulary import NOTHING
from oodometer.lab.training.networks._parts import Staged


class FirstTokens(nn.Module):
    """The vector of [CLS], a text's first token, after every layer of an encoder.

    What stands behind the end of a text is masked, and cut off where no text of the batch goes on.
    """

    def __init__(self, encoder: nn.Module, layers: int, padding: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.padding = padding
        # What layer-wise detectors read: these give their inputs on.
        self.layers = nn.ModuleList(nn.Identity() for _ in range(layers))

    def forward(self, numbers: Tensor) -> Tensor:
        """Return the vectors of the last layer."""
        length = max(1, int((numbers != NOTHING).sum(1).max()))
        numbers = numbers[:, :length]
        given = numbers != NOTHING
        pieces = torch.where(given, numbers - 1, self.padding)
        given[:, 0] = True  # attention to nothing at all is undefined
        states = self.encoder(
            input_ids=pieces, attention_mask=given.long(), output_hidden_states=True
        ).hidden_states
        for layer, state in zip(self.layers, states[1:], strict=True):
            first: Tensor = layer(state[:, 0])
        return first


def encoder(length: int, words: int, classes: int, units: int | None, *, path: str) -> nn.Module:
    """For text: a pretrained BERT or similar, fine-tuned; its weights fix the `width`.

    Devlin et al. 2019, arXiv:1810.04805, section 4.1: the vector of [CLS], dropout, and a linear
    head with weights from N(0, 0.02^2).
    """
    if units is not None:
        raise UserError(f"Network 'encoder' has the width of its weights: leave out width {units}.")
    folder = encoder_folder(path)
    with quiet_transformers():
        from transformers import AutoModel

        try:
            body, loaded = AutoModel.from_pretrained(
                folder,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                output_loading_info=True,
            )
        except (OSError, ValueError, RuntimeError, SafetensorError) as problem:
            raise UserError(
                f"Encoder '{path}' cannot be loaded: {str(problem).splitlines()[0]}"
            ) from None
    lacking = [name for name in loaded["missing_keys"] if not name.startswith("pooler.")]
    if lacking:
        raise UserError(f"The weights of encoder '{path}' lack {', '.join(sorted(lacking)[:3])}.")
    if getattr(body, "pooler", None) is not None:
        body.pooler = None  # a layer behind [CLS] of the pretraining, which nothing reads
    config = body.config
    head = nn.Linear(config.hidden_size, classes)
    nn.init.normal_(head.weight, std=0.02)
    nn.init.zeros_(head.bias)
    tokens = FirstTokens(body, config.num_hidden_layers, config.pad_token_id or 0)
    dropout = nn.Dropout(getattr(config, "hidden_dropout_prob", 0.1))
    names = tuple(f"tokens.layers.{number}" for number in range(config.num_hidden_layers))
    return Staged({"tokens": tokens, "dropout": dropout, "head": head}, names)
