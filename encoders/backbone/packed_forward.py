"""BERT's and DistilBERT's forward pass without padding, for inference on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import BertForMaskedLM, BertModel, DistilBertForMaskedLM, DistilBertModel

from encoders.backbone.packed_layers import Layer, Layers, Workspace, activated


@dataclass(frozen=True)
class _Family:
    """Where a kind of model keeps its parts."""

    layers: Callable[[Any], Iterator[Layer]]
    token_types: Callable[[Any], nn.Embedding | None]
    head: Callable[[Any], tuple[nn.Module, nn.Module, nn.Module]] | None
    """Linear, activation and LayerNorm before the decoder; None for an encoder alone."""


class PackedForward:
    """What ``model(input_ids, attention_mask)`` computes for the tokens that the mask has, and zeros for the others.

    Equal up to rounding. The parameters are the model's own, read at every call. Not for two threads at once.
    """

    def __init__(self, model: Any, family: _Family) -> None:
        self._model, self._family, self._workspace = model, family, Workspace()

    @classmethod
    def of(cls, model: Any) -> PackedForward | None:
        """None for a model whose parts are not known here: then its own forward pass is the only one."""
        family = _FAMILIES.get(type(model))
        plain = getattr(model.config, "position_embedding_type", "absolute") == "absolute"
        if family is None or not plain or getattr(model.config, "is_decoder", False):
            return None
        return cls(model, family)

    def suits(self, input_ids: Tensor) -> bool:
        """Whether it may be used now: on the CPU, without gradient, dropout and autocast."""
        return (
            input_ids.device.type == "cpu"
            and not self._model.training
            and not torch.is_grad_enabled()
            and not torch.is_autocast_enabled("cpu")
        )

    def __call__(self, input_ids: Tensor, attention_mask: Tensor, layers: Sequence[int] | None = None) -> list[Tensor]:
        """States ``(batch, tokens, hidden)`` of ``layers``, 0 being the embeddings.

        ``None``: of a masked-LM just those that its decoder reads; of an encoder alone the last layer's.
        """
        parts = tuple(self._family.layers(self._model.base_model))
        wanted = (len(parts),) if layers is None else tuple(layers)
        keep = attention_mask.bool()
        lengths = [length for length in keep.sum(1).tolist() if length]
        rows, found = self._embed(input_ids, keep), {}
        batch = Layers(parts, rows, lengths, self._workspace) if lengths and parts else None
        for number in range(max(wanted) + 1):
            if number and batch is not None:
                rows = batch.run(number - 1, rows)
            if number in wanted:
                found[number] = _spread(self._transform(rows) if layers is None else rows, keep)
        return [found[number] for number in wanted]

    def _embed(self, input_ids: Tensor, keep: Tensor) -> Tensor:
        embeddings = self._model.base_model.embeddings
        rows: Tensor = embeddings.word_embeddings(input_ids[keep])
        types = self._family.token_types(embeddings)
        if types is not None:
            rows += types.weight[0]
        rows += embeddings.position_embeddings(keep.nonzero()[:, 1])
        normed: Tensor = embeddings.LayerNorm(rows)
        return normed

    def _transform(self, rows: Tensor) -> Tensor:
        if self._family.head is None:
            return rows
        linear, activation, norm = self._family.head(self._model)
        transformed: Tensor = norm(activated(linear, activation, rows, rows.shape[1], self._workspace))
        return transformed


def known_layers(model: Any) -> tuple[Layer, ...]:
    """The layers of a model whose parts are known here, else none."""
    family = _FAMILIES.get(type(model))
    return () if family is None else tuple(family.layers(model.base_model))


def _spread(rows: Tensor, keep: Tensor) -> Tensor:
    """A copy, for ``rows`` are the next layer's to write to."""
    states = rows.new_zeros(*keep.shape, rows.shape[1])
    states[keep] = rows
    return states


def _bert_layers(encoder: Any) -> Iterator[Layer]:
    for layer in encoder.encoder.layer:
        attention = layer.attention
        yield Layer(
            query=attention.self.query,
            key=attention.self.key,
            value=attention.self.value,
            out=attention.output.dense,
            attention_norm=attention.output.LayerNorm,
            up=layer.intermediate.dense,
            activation=layer.intermediate.intermediate_act_fn,
            down=layer.output.dense,
            output_norm=layer.output.LayerNorm,
            heads=attention.self.num_attention_heads,
            inner=encoder.config.intermediate_size,
        )


def _distilbert_layers(encoder: Any) -> Iterator[Layer]:
    for layer in encoder.transformer.layer:
        attention = layer.attention
        yield Layer(
            query=attention.q_lin,
            key=attention.k_lin,
            value=attention.v_lin,
            out=attention.out_lin,
            attention_norm=layer.sa_layer_norm,
            up=layer.ffn.lin1,
            activation=layer.ffn.activation,
            down=layer.ffn.lin2,
            output_norm=layer.output_layer_norm,
            heads=attention.n_heads,
            inner=encoder.config.hidden_dim,
        )


def _bert_head(model: Any) -> tuple[nn.Module, nn.Module, nn.Module]:
    transform = model.cls.predictions.transform
    return transform.dense, transform.transform_act_fn, transform.LayerNorm


def _bert(head: Callable[[Any], tuple[nn.Module, nn.Module, nn.Module]] | None) -> _Family:
    return _Family(_bert_layers, lambda embeddings: embeddings.token_type_embeddings, head)


def _distilbert(head: Callable[[Any], tuple[nn.Module, nn.Module, nn.Module]] | None) -> _Family:
    return _Family(_distilbert_layers, lambda _: None, head)


_FAMILIES: dict[type, _Family] = {
    BertModel: _bert(None),
    BertForMaskedLM: _bert(_bert_head),
    DistilBertModel: _distilbert(None),
    DistilBertForMaskedLM: _distilbert(lambda model: (model.vocab_transform, model.activation, model.vocab_layer_norm)),
}
