"""A cross-encoder of transformers: one score for a query and a document read together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import transformers
from safetensors import SafetensorError

from encoders.backbone import DTYPES, choose_device, choose_dtype, longest_input, quiet
from encoders.checkpoints import check_sizes, load_tokenizer, locate, require_safetensors
from encoders.encoding import BatchSize
from eval.rerank.reranking import Done, Pair
from learned_sparse.core import Document, LearnedSparseError, sha256

MAX_LENGTH = 512
BATCH_SIZE = "16384t"
_AT_ONCE = 8192  # pairs that are tokenised, and sorted by length, together


class CrossEncoder:
    """Scores are the logit of a model with one label; with two, the last one's log-odds.

    Log-odds, the difference of the two logits, order like the probability of the last label (monoBERT), but do not
    become equal where probabilities are nearly 1.
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
        """``name`` is a folder or a Hub id; its weights must be safetensors, and its head a trained one."""
        folder = locate(name, revision)
        self._model = _load(folder, name)
        self._tokenizer = load_tokenizer(folder)
        longest = longest_input(self._model.config)
        known = min(longest or MAX_LENGTH, self._tokenizer.model_max_length, MAX_LENGTH)
        self.max_length = known if max_length is None else max_length
        check_sizes(name, self.max_length, None, longest)
        self._device = choose_device(device)
        numbers = choose_dtype(dtype, self._device)
        self._model.to(device=self._device, dtype=DTYPES[numbers]).eval()
        self._batch_size = BatchSize.parse(BATCH_SIZE if batch_size is None else batch_size)
        self.description = {
            "cross_encoder": name,
            "revision": revision,
            "weights_sha256": {path.name: sha256(path) for path in sorted(folder.glob("*.safetensors"))},
            "max_length": self.max_length,
            "dtype": numbers,
        }

    def scores(
        self, queries: Mapping[str, str], documents: Mapping[str, Document], pairs: Sequence[Pair], done: Done
    ) -> npt.NDArray[np.float64]:
        """One score for each of ``pairs``; the longer text of a pair is cut first."""
        found = np.empty(len(pairs), np.float64)
        for start in range(0, len(pairs), _AT_ONCE):
            some = pairs[start : start + _AT_ONCE]
            texts = [queries[query] for query, _ in some], [documents[document].text for _, document in some]
            tokenized = self._tokenizer(*texts, truncation=True, max_length=self.max_length, padding=False)
            lengths = np.fromiter(map(len, tokenized["input_ids"]), np.int64, len(some))
            for places in self._batch_size.batches(lengths):
                batch = {key: [values[place] for place in places] for key, values in tokenized.items()}
                found[start + places] = self._logits(batch)
                done(len(places))
        return found

    def _logits(self, batch: Mapping[str, Any]) -> npt.NDArray[np.float64]:
        with torch.inference_mode():
            padded = self._tokenizer.pad(batch, return_tensors="pt").to(self._device)
            logits = self._model(**padded).logits.double()  # (pairs, labels)
        scores = logits[:, -1] - logits[:, 0] if logits.shape[1] == 2 else logits[:, 0]
        return np.asarray(scores.cpu().numpy(), np.float64)


def _load(folder: Path, name: str) -> Any:
    require_safetensors(folder, name)
    kind: Any = transformers.AutoModelForSequenceClassification
    with quiet():
        try:
            model, loading = kind.from_pretrained(
                folder, use_safetensors=True, trust_remote_code=False, dtype=torch.float32, output_loading_info=True
            )
        except ValueError as error:
            raise LearnedSparseError(f"{name}: not a cross-encoder that transformers knows: {error}") from error
        except (OSError, SafetensorError) as error:
            raise LearnedSparseError(f"{name}: cannot be read ({error}); copy or download it again") from error
    if loading["missing_keys"]:
        missing = ", ".join(sorted(loading["missing_keys"])[:3])
        raise LearnedSparseError(f"{name}: not a trained cross-encoder (no weights for {missing}); fine-tune it first")
    if model.config.num_labels > 2:
        raise LearnedSparseError(f"{name}: {model.config.num_labels} labels; a re-ranker has one, or two")
    return model
