"""Networks for texts: numbers of words in, logits out; 0 stands for nothing."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from oodometer.lab.training.networks._parts import staged


def _vectors(words: int, units: int) -> nn.Embedding:
    """Vectors of words, at first uniform in [-0.25, 0.25] (Kim 2014); that of nothing stays 0."""
    vectors = nn.Embedding(words, units, padding_idx=0)
    with torch.no_grad():
        vectors.weight.uniform_(-0.25, 0.25)[0] = 0
    return vectors


class MeanOfWords(nn.Module):
    """The mean of the vectors of a text's words."""

    def __init__(self, words: int, units: int) -> None:
        super().__init__()
        self.vectors = _vectors(words, units)

    def forward(self, numbers: Tensor) -> Tensor:
        """Average over the words that there are; nothing has the vector 0 and does not count."""
        count = (numbers != 0).sum(1, keepdim=True).clamp(min=1)
        mean: Tensor = self.vectors(numbers).sum(1) / count
        return mean


class PhraseDetectors(nn.Module):
    """Filters over phrases of 3, 4 and 5 words, and the strongest answer of each in the text."""

    SIZES = (3, 4, 5)

    def __init__(self, words: int, units: int, filters: int) -> None:
        super().__init__()
        self.vectors = _vectors(words, units)
        self.filters = nn.ModuleList(nn.Conv1d(units, filters, size) for size in self.SIZES)

    def forward(self, numbers: Tensor) -> Tensor:
        """Return one value per filter. Phrases that lie behind the end say nothing."""
        vectors = self.vectors(numbers).transpose(1, 2)
        found = []
        for filters in self.filters:
            answers = torch.relu(filters(vectors))
            begun = (numbers != 0)[:, None, : answers.shape[2]]
            found.append((answers * begun).amax(2))  # answers are at least 0
        return torch.cat(found, 1)


def text_bag(length: int, words: int, classes: int, units: int) -> nn.Module:
    """For text: mean of word embeddings, one hidden layer; `width` units each."""
    stages = {
        "stage1": MeanOfWords(words, units),
        "stage2": nn.Sequential(nn.Linear(units, units), nn.ReLU()),
    }
    return staged(stages, nn.Identity(), nn.Linear(units, classes))


def text_cnn(length: int, words: int, classes: int, units: int) -> nn.Module:
    """For text: 3 x `width` filters over 3 to 5 words, dropout (Kim 2014).

    arXiv:1408.5882, whose size it has at width 100: vectors of 3 x `width`. They are learned from
    the start, as in its variant CNN-rand.
    """
    phrases = PhraseDetectors(words, 3 * units, units)
    head = nn.Linear(len(PhraseDetectors.SIZES) * units, classes)
    return staged({"stage1": phrases}, nn.Dropout(0.5), head)
