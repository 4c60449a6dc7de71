"""Masked language modelling as a stage: ``objective: mlm`` adapts a backbone to the texts that it will weigh.

A backbone without masked-LM head learns one here. The texts are the documents of the examples, so that ``negatives:
{kind: random, per_query: 3}`` adds three documents of the collection to each positive.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from encoders.backbone.towers import LanguageModel
from encoders.encoding.model import LoadedModel
from encoders.models.objectives import Labels, Objective, TermWeighers, Tokens
from encoders.training.recipe import Stage
from learned_sparse.core.errors import LearnedSparseError

MASKED_SHARE = 0.15
"""Tokens to predict, of those that are not special: BERT's (arXiv 1810.04805 §3.1), as are the two shares below."""
REPLACED_BY_MASK, REPLACED_BY_ANY = 0.8, 0.1
_IGNORED = -100


class MaskedLMObjective(Objective):
    """The negative log likelihood of masked tokens of documents, by every masked-LM tower.

    With a regulariser of documents, the weights of the same texts are computed as well (naver/splade calls such a
    training middle-training).
    """

    ranks = False

    def __init__(self, stage: Stage, model: LoadedModel, weighers: TermWeighers) -> None:
        tokenizer, names = model.tokenizer, model.settings.towers("document", "query")
        self._towers = {name: model.towers[name] for name in names if isinstance(model.towers[name], LanguageModel)}
        self.towers = tuple(self._towers)
        if not self._towers or tokenizer.mask_token_id is None:
            missing = "tower with a masked-LM head" if not self._towers else "[MASK] in its vocabulary"
            raise LearnedSparseError(f"stage {stage.name}: objective: mlm: this model has no {missing}")
        self._mask_id, self._special = int(tokenizer.mask_token_id), torch.tensor(tokenizer.all_special_ids)
        self._weighers = weighers if stage.regularizer_of("document")[0] != "none" else None

    def outputs(self, queries: Tokens, documents: Tokens) -> dict[str, Tensor]:
        """``mlm_TOWER`` ``(documents, 2)``: the loss summed over the masked tokens of a text, and their number."""
        ids, targets = self.masked(documents.input_ids)
        chosen, outputs = targets != _IGNORED, dict[str, Tensor]()
        for name, tower in self._towers.items():
            states = tower(ids, documents.attention_mask)[chosen]
            logits = tower.decoder(states).float()
            losses = functional.cross_entropy(logits, targets[chosen], reduction="none")
            sums = losses.new_zeros(len(ids)).index_add(0, chosen.nonzero()[:, 0], losses)
            outputs[f"mlm_{name}"] = torch.stack([sums, chosen.sum(dim=1).to(sums)], dim=1)
        if self._weighers is not None:
            weights, count = self._weighers.document(*documents).float(), len(queries.input_ids)
            outputs |= {"positives": weights[:count], "negatives": weights[count:]}
        return outputs

    def losses(self, outputs: Mapping[str, Tensor], labels: Labels) -> dict[str, Tensor]:
        """The loss of each text, ``(documents,)``: their mean is the mean over all masked tokens of the step."""
        del labels
        losses = {}
        for name in self._towers:
            sums, counts = outputs[f"mlm_{name}"].unbind(dim=1)
            losses["mlm_loss" if len(self._towers) == 1 else f"{name}_mlm_loss"] = (
                sums * len(sums) / counts.sum().clamp(min=1)
            )
        return losses

    def masked(self, input_ids: Tensor) -> tuple[Tensor, Tensor]:
        """``input_ids`` with masked tokens, and the tokens to predict (-100 elsewhere), both ``(texts, tokens)``."""
        self._special = self._special.to(input_ids.device)
        draws = torch.rand(2, *input_ids.shape, device=input_ids.device)
        chosen = (draws[0] < MASKED_SHARE) & ~torch.isin(input_ids, self._special)
        size = next(iter(self._towers.values())).vocabulary_size
        any_token = torch.randint(size, input_ids.shape, device=input_ids.device)
        replaced = input_ids.masked_fill(chosen & (draws[1] < REPLACED_BY_MASK), self._mask_id)
        by_any = chosen & (draws[1] >= REPLACED_BY_MASK) & (draws[1] < REPLACED_BY_MASK + REPLACED_BY_ANY)
        return torch.where(by_any, any_token, replaced), input_ids.masked_fill(~chosen, _IGNORED)
