"""Output biases that know how rare a term is: an untrained head then starts near tf-idf, not plain matching."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from encoders.checkpoints import Vocabulary, tokenize_texts
from encoders.encoding import LoadedModel
from encoders.training.objective import GATE
from learned_sparse.core import LearnedSparseError

_BIAS = "decoder_bias"

DOCUMENTS = 20_000
"""Documents of each source that frequencies are counted in, at most."""


def add_idf_bias(model: LoadedModel, documents: Sequence[str], factor: float) -> None:
    """Add ``factor * ln((N + 1) / (df + 1))`` to every term's output bias, df counted in the ``documents`` given.

    Short runs hardly move a bias: its steps are as small as those of any weight. Gates are left alone, which learn how
    likely a term is, not how telling; so are towers without an output over the vocabulary.
    """
    raised = [tower for name, tower in model.towers.items() if not name.endswith(GATE) and hasattr(tower, _BIAS)]
    if not raised:
        raise LearnedSparseError("idf_bias: no tower of this model has output biases over the vocabulary; leave it out")
    inverse = inverse_document_frequencies(model, documents)
    with torch.no_grad():
        for tower in raised:
            tower.decoder_bias.add_(factor * inverse.to(tower.decoder_bias.device))


def inverse_document_frequencies(model: LoadedModel, documents: Sequence[str]) -> torch.Tensor:
    """ln((N + 1) / (df + 1)) of every term ``(vocabulary,)``; 0 for special and ``[unused]`` tokens: no words."""
    size = next(iter(model.towers.values())).vocabulary_size
    frequencies = torch.zeros(size)
    for start in range(0, len(documents), 1000):
        some = list(documents[start : start + 1000])
        found = tokenize_texts(model.tokenizer, some, truncation=True, max_length=model.max_length["document"])
        for ids in found["input_ids"]:
            frequencies[list(set(ids))] += 1
    inverse = torch.log((len(documents) + 1) / (frequencies + 1))
    vocabulary = Vocabulary.from_tokenizer(model.tokenizer, size)
    inverse[[*vocabulary.special_ids, *vocabulary.unused_ids]] = 0
    return inverse
