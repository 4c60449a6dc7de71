"""Bags of words in torch, which training needs, and the tables of their weights.

``encoders.encoding.bag_of_words`` encodes the queries of a checkpoint without torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from encoders.backbone.towers import Tower, pretrained_config, write_tensors
from encoders.checkpoints.foreign import TABLE, read_table
from encoders.checkpoints.notes import Weighting
from encoders.checkpoints.tokenizer import SpecialTokens, Vocabulary
from encoders.head.shares import Shares, merged_shares


class TermTable(Tower):
    """Weights ``(vocabulary,)`` without a network, 1 at first. A weight below zero counts as 0."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weights, self.vocabulary_size = nn.Parameter(torch.ones(size)), size

    def forward(self) -> Tensor:
        """The weights, ``(vocabulary,)``, none below zero.

        The gradient ignores the cut at zero, so that a weight can return from below.
        """
        return self.weights + (self.weights.relu() - self.weights).detach()

    def new_parameters(self) -> list[nn.Parameter]:
        """The weights."""
        return [self.weights]

    def save(self, folder: Path) -> None:
        """Write the weights, which are read without torch."""
        folder.mkdir(parents=True, exist_ok=True)
        write_tensors(folder / TABLE, {"weights": self().float()})

    @classmethod
    def load(cls, folder: Path) -> TermTable:
        """The table in a checkpoint of this package or of another tool."""
        weights = torch.tensor(read_table(folder))
        table = cls(len(weights))
        table.weights.data.copy_(weights)
        return table

    @classmethod
    def from_backbone(cls, folder: Path, **_: Any) -> TermTable:
        """A table for the vocabulary of a backbone."""
        return cls(pretrained_config(folder, attention="bidirectional").vocab_size)


class BagOfWords(nn.Module):
    """The tokens of the text, without a network.

    ``binary``: weight 1 for each; ``tf``: its count in the truncated text. ``idf`` and ``learned``: its weight in
    ``table``, which holds inverse document frequencies of the training data, or what training made of them.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        weighting: Weighting = "binary",
        special_tokens: SpecialTokens = "none",
        table: TermTable | None = None,
    ) -> None:
        super().__init__()
        self.weighting, self.table = weighting, table
        self._counts: Tensor
        self.register_buffer("_counts", torch.tensor(vocabulary.counted(special_tokens)), persistent=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Weights ``(batch, vocabulary)``."""
        literal = self.literal_positions(input_ids, attention_mask).float()
        bags = literal.new_zeros(len(input_ids), len(self._counts)).scatter_add(1, input_ids, literal)
        bags = bags if self.weighting == "tf" else bags.clamp(max=1)
        return bags if self.table is None else bags * self.table()

    def shares(self, input_ids: Tensor, attention_mask: Tensor, columns: Tensor) -> list[Shares]:
        """Every occurrence for ``tf``, else the first one."""
        literal = self.literal_positions(input_ids, attention_mask)
        repeats: Literal["first", "sum"] = "sum" if self.weighting == "tf" else "first"
        weights = literal.float() if self.table is None else literal * self.table()[input_ids]
        return [merged_shares(weights, input_ids, literal, columns, repeats)]

    @property
    def excluded(self) -> tuple[int, ...]:
        """The token ids that are never in the bag."""
        return tuple((~self._counts).nonzero().flatten().tolist())

    def literal_positions(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """True at the positions whose token is in the bag, ``(batch, tokens)``; never at padding, whatever its id."""
        return attention_mask.bool() & self._counts[input_ids]
