"""Models that score pairs of a query and a document: cross-encoders, checkpoints of this package, and their mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from learned_sparse.core.encoder import encode_texts, load_encoder
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import sha256
from learned_sparse.core.records import Document

MAX_LENGTH = 512
"""Default maximum length of a query-document pair, in tokens."""
Pair = tuple[str, str]
"""Query id, document id."""
Scores = npt.NDArray[np.float64]
_BATCH_SIZE = "16384t"
_PAIRS = 8192  # pairs that are tokenised, and sorted by length, at a time
_DOCUMENTS = 1024  # documents that are encoded, and held in memory, at a time


class Scorer(Protocol):
    """A model that scores pairs."""

    description: Mapping[str, Any]
    """What decides its scores, as JSON."""

    def scores(
        self, queries: Mapping[str, str], documents: Mapping[str, Document], pairs: Sequence[Pair], progress: tqdm[Any]
    ) -> Scores:
        """One score for each of ``pairs``."""


class CrossEncoder(Scorer):
    """A sequence classifier of transformers that reads query and document together.

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
        """``name`` is a folder or Hub id with trained weights in safetensors."""
        from encoders.backbone import DTYPES, choose_device, choose_dtype, load_tokenizer, longest_input
        from encoders.checkpoints import check_sizes, locate
        from encoders.encoding import BatchSize

        folder = locate(name, revision)
        self._model = _load_classifier(folder, name)
        self._tokenizer = load_tokenizer(folder)
        longest = longest_input(self._model)
        default = min(longest or MAX_LENGTH, self._tokenizer.model_max_length, MAX_LENGTH)
        self._max_length = default if max_length is None else max_length
        check_sizes(name, self._max_length, None, longest)
        self._device = choose_device(device)
        data_type = choose_dtype(dtype, self._device)
        self._model.to(device=self._device, dtype=DTYPES[data_type]).eval()
        self._batch_size = BatchSize.parse(_BATCH_SIZE if batch_size is None else batch_size)
        self.description = {
            "cross_encoder": name,
            "revision": revision,
            "weights_sha256": {path.name: sha256(path) for path in sorted(folder.glob("*.safetensors"))},
            "max_length": self._max_length,
            "dtype": data_type,
        }

    def scores(
        self, queries: Mapping[str, str], documents: Mapping[str, Document], pairs: Sequence[Pair], progress: tqdm[Any]
    ) -> Scores:
        """One score for each of ``pairs``; the longer text of a pair is truncated first."""
        scores = np.empty(len(pairs), np.float64)
        for start in range(0, len(pairs), _PAIRS):
            part = pairs[start : start + _PAIRS]
            texts = [queries[query] for query, _ in part], [documents[document].text for _, document in part]
            tokenized = self._tokenizer(*texts, truncation=True, max_length=self._max_length, padding=False)
            lengths = np.fromiter(map(len, tokenized["input_ids"]), np.int64, len(part))
            for rows in self._batch_size.batches(lengths):
                batch = {key: [values[row] for row in rows] for key, values in tokenized.items()}
                scores[start + rows] = self._score(batch)
                progress.update(len(rows))
        return scores

    def _score(self, batch: Mapping[str, Any]) -> Scores:
        import torch

        with torch.inference_mode():
            padded = self._tokenizer.pad(batch, return_tensors="pt").to(self._device)
            logits = self._model(**padded).logits.double()  # (pairs, labels)
        scores = logits[:, -1] - logits[:, 0] if logits.shape[1] == 2 else logits[:, 0]
        return np.asarray(scores.cpu().numpy(), np.float64)


class DotProducts(Scorer):
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


class Ensemble(Scorer):
    """The mean of the scores of several models, which should be of one scale."""

    def __init__(self, members: Sequence[Scorer]) -> None:
        self._members = members
        self.description = {"mean_of": [dict(member.description) for member in members]}

    def scores(
        self, queries: Mapping[str, str], documents: Mapping[str, Document], pairs: Sequence[Pair], progress: tqdm[Any]
    ) -> Scores:
        """The mean score of each of ``pairs``."""
        every = [member.scores(queries, documents, pairs, progress) for member in self._members]
        return np.asarray(np.mean(every, axis=0), np.float64)


def _load_classifier(folder: Path, name: str) -> Any:
    import torch
    import transformers
    from safetensors import SafetensorError

    from encoders.backbone import quiet
    from encoders.checkpoints import require_safetensors

    require_safetensors(folder, name)
    kind: Any = transformers.AutoModelForSequenceClassification
    with quiet():
        try:
            model, loading = kind.from_pretrained(
                folder, use_safetensors=True, trust_remote_code=False, dtype=torch.float32, output_loading_info=True
            )
        except ValueError as error:
            raise LearnedSparseError(f"{name}: transformers cannot load it as a cross-encoder: {error}") from error
        except (OSError, SafetensorError) as error:
            raise LearnedSparseError(f"{name}: cannot be read ({error}); copy or download it again") from error
    if loading["missing_keys"]:
        missing = ", ".join(sorted(loading["missing_keys"])[:3])
        raise LearnedSparseError(f"{name}: not a trained cross-encoder (no weights for {missing}); fine-tune it first")
    if model.config.num_labels > 2:
        raise LearnedSparseError(f"{name}: {model.config.num_labels} labels; a re-ranker has one or two")
    return model
