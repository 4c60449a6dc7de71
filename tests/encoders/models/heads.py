"""Shared by the tests of all architectures: texts and pairs, tokenized inputs, weights, and outputs of a tower."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from encoders.checkpoints.tokenizer import tokenize_texts
from encoders.encoding.model import LoadedModel, new_model
from learned_sparse.core.records import EXPANDED
from tests.tiny_models import TEXTS, VOCABULARY

EXPANSIONS = ["what causes hives", "", "memory of the garbage", "wing wing lift", "rain", "the wing of a new wing"]
PAIRS = [text + EXPANDED + expansion if expansion else text for text, expansion in zip(TEXTS, EXPANSIONS, strict=True)]
SPECIAL = {word: VOCABULARY.index(word) for word in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")}
ADDED = [token for word, token in SPECIAL.items() if word != "[UNK]"]
UNUSED = [token for token, word in enumerate(VOCABULARY) if word.startswith("[unused")]
NOT_IN_BAG: dict[str, list[int]] = {"all": [], "unknown": ADDED, "none": list(SPECIAL.values())}


def untrained(architecture: str, settings: dict[str, Any], backbone: object) -> LoadedModel:
    """A new model in evaluation mode, with different towers and head scores far from zero."""
    model = new_model(architecture, settings, str(backbone))
    with torch.no_grad():
        for number, tower in enumerate(model.towers.values()):
            for parameter in tower.new_parameters():
                parameter.mul_(10).add_(0.3 if parameter.dim() == 1 else 0)
            if hasattr(tower, "decoder"):
                tower.decoder.bias.add_(0.5 * number)
    model.weighers.eval()
    return model


def inputs(model: LoadedModel, texts: list[str], **options: Any) -> tuple[Tensor, Tensor]:
    """Token ids and attention mask of ``texts``, each with or without expansion text."""
    encoded = tokenize_texts(
        model.tokenizer, texts, return_tensors="pt", padding=True, return_token_type_ids=False, **options
    )
    return encoded["input_ids"], encoded["attention_mask"]


def weigh(module: Any, model: LoadedModel, texts: list[str] = TEXTS, **options: Any) -> Tensor:
    """Weights of ``texts`` by ``module``, without gradient."""
    with torch.inference_mode():
        weights: Tensor = module(*inputs(model, texts, **options))
    return weights


class LogitTable(nn.Module):
    """A tower without a network: token t has the logits ``rows[t]``."""

    def __init__(self, *rows: list[float]) -> None:
        super().__init__()
        self.rows, self.screen = torch.tensor(rows), None
        self.decoder = nn.Linear(len(rows[0]), len(rows[0]), bias=False)
        self.decoder.weight = nn.Parameter(torch.eye(len(rows[0])), requires_grad=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.rows[input_ids]


def scores_of(tower: Any, ids: Tensor) -> list[float]:
    """The head's score of each token of one unpadded text."""
    with torch.no_grad():
        scores: list[float] = tower.head(tower(ids[None], torch.ones_like(ids)[None])[0])[0, :, 0].tolist()
    return scores


def logits_of(tower: Any, ids: Tensor) -> list[list[float]]:
    """Masked-LM logits of each token of one unpadded text."""
    with torch.no_grad():
        hidden = tower(ids[None], torch.ones_like(ids)[None])[0]
        logits: list[list[float]] = (hidden @ tower.decoder.weight.T + tower.decoder.bias).tolist()
    return logits
