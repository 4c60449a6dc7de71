"""Models that score pairs of a query and a document: cross-encoders, and checkpoints of this package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from learned_sparse.collections.documents import Document
from learned_sparse.core.encoder import encode_texts, load_encoder
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import sha256
from learned_sparse.core.lazy import import_extra

MAX_LENGTH = 512
"""Default maximum length of a query-document pair, in tokens."""
Pair = tuple[str, str]
"""Query id, document id."""
Scores = npt.NDArray[np.float64]
_DOCUMENTS = 1024  # documents that are encoded, and held in memory, at a time


class CrossEncoder:
    """A cross-encoder of sentence-transformers, or any sequence classifier of transformers.

    The score is the logit of a model with one label, and the log-odds of the second label of a model with two. Log-odds
    (the difference of the two logits) order pairs as the probability does (monoBERT), but do not become equal for
    probabilities close to 1.
    """

    def __init__(
        self,
        name: str,
        *,
        revision: str | None = None,
        max_length: int | None = None,
        batch_size: str | None = None,
        device: str | None = None,
        dtype: str = "fp32",
    ) -> None:
        """``name`` is a folder or Hub id with trained weights in safetensors; ``batch_size`` counts pairs."""
        from safetensors import SafetensorError

        from encoders.backbone.device import DTYPES, choose_device, choose_dtype
        from encoders.backbone.towers import quiet
        from encoders.checkpoints.hub import locate, tensor_names
        from encoders.checkpoints.notes import NOTES

        if not (batch_size or "1").isdigit():
            raise LearnedSparseError(f"--batch-size {batch_size}: a cross-encoder takes a number of pairs")
        folder, torch_device = locate(name, revision), choose_device(device)
        if (folder / NOTES).exists():
            raise LearnedSparseError(f"{name}: is a checkpoint of this package; --checkpoint takes it")
        tensor_names(folder)
        data_type = choose_dtype(dtype, torch_device)
        with quiet():
            try:
                self._model: Any = import_extra("sentence_transformers", "teach").CrossEncoder(
                    str(folder), device=str(torch_device), max_length=max_length, local_files_only=True,
                    model_kwargs={"use_safetensors": True, "dtype": DTYPES[data_type]},
                )  # fmt: skip
            except ValueError as error:
                raise LearnedSparseError(f"{name}: transformers cannot load it as a cross-encoder: {error}") from error
            except (OSError, SafetensorError) as error:
                raise LearnedSparseError(f"{name}: cannot be read ({error}); copy or download it again") from error
        config = self._model.config
        if not any("ForSequenceClassification" in kind for kind in config.architectures or ()):
            raise LearnedSparseError(f"{name}: not a trained cross-encoder, but {config.architectures}; fine-tune it")
        if config.num_labels > 2:
            raise LearnedSparseError(f"{name}: {config.num_labels} labels; a re-ranker has one or two")
        if max_length is None:
            self._model.max_seq_length = min(self._model.max_seq_length or MAX_LENGTH, MAX_LENGTH)
        length, positions = self._model.max_seq_length, getattr(config, "max_position_embeddings", None) or 2**31 - 1
        longest = min(positions, self._model.tokenizer.model_max_length)  # RoBERTa's positions start after the padding
        if not 3 <= length <= longest:
            raise LearnedSparseError(f"{name}: max length {length}; give 3 to {longest} tokens")
        self._batch_size = int(batch_size or 32)
        self.description = {
            "cross_encoder": name,
            "revision": revision,
            "weights_sha256": {path.name: sha256(path) for path in sorted(folder.glob("*.safetensors"))},
            "max_length": self._model.max_seq_length,
            "dtype": data_type,
        }

    def scores(
        self, queries: Mapping[str, str], documents: Mapping[str, Document], pairs: Sequence[Pair], progress: tqdm[Any]
    ) -> Scores:
        """One score for each of ``pairs``; the longer text of a pair is truncated first."""
        import torch

        texts = [(queries[query], documents[document].text) for query, document in pairs]
        options = {"batch_size": self._batch_size, "show_progress_bar": False, "convert_to_tensor": True}
        logits = self._model.predict(texts, activation_fn=torch.nn.Identity(), **options).cpu().double()
        progress.update(len(pairs))
        return np.asarray((logits if logits.ndim == 1 else logits[:, -1] - logits[:, 0]).numpy(), np.float64)


class DotProducts:
    """A checkpoint of this package: the sum over terms of query weight times document weight, without quantisation."""

    def __init__(self, checkpoint: str, **options: Any) -> None:
        """``options`` are those of ``load_encoder``, for both sides."""
        self._queries = load_encoder(checkpoint, "query", **options)
        self.document_encoder = load_encoder(checkpoint, "document", **options)
        if self._queries.description.get("scoring", "impact") != "impact":
            raise LearnedSparseError(f"{checkpoint}: scored by BM25; only models scored by impacts have dot products")
        self.description = {
            "checkpoint": checkpoint,
            "query_encoder": dict(self._queries.description),
            "document_encoder": dict(self.document_encoder.description),
        }

    def scores(
        self, queries: Mapping[str, str], documents: Mapping[str, Document], pairs: Sequence[Pair], progress: tqdm[Any]
    ) -> Scores:
        """One score for each of ``pairs``, summed in float64; each text is encoded once."""
        row_of = {query: row for row, query in enumerate(dict.fromkeys(query for query, _ in pairs))}
        texts = [queries[query] for query in row_of]
        encoded_queries = encode_texts(self._queries, texts).to_scipy().astype(np.float64)
        positions: dict[str, list[int]] = {}  # document → positions in pairs
        for position, (_, document) in enumerate(pairs):
            positions.setdefault(document, []).append(position)
        scores, ids = np.empty(len(pairs), np.float64), list(positions)
        for start in range(0, len(ids), _DOCUMENTS):
            part = ids[start : start + _DOCUMENTS]
            texts = [self._text(documents[document]) for document in part]
            encoded_documents = encode_texts(self.document_encoder, texts).to_scipy().astype(np.float64)
            of_part = np.array([position for document in part for position in positions[document]])
            document_rows = np.repeat(np.arange(len(part)), [len(positions[document]) for document in part])
            query_rows = [row_of[pairs[position][0]] for position in of_part]
            scores[of_part] = (encoded_queries[query_rows] * encoded_documents[document_rows]).sum(axis=1)
            progress.update(len(of_part))
        return scores

    def _text(self, document: Document) -> str:
        return document.with_expanded if self.document_encoder.uses_expanded else document.text
