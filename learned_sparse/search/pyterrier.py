"""Encoders as PyTerrier transformers; needs the extra ``pyterrier``.

The columns are PyTerrier's for learned sparse retrieval: ``query_toks`` of queries and ``toks`` of documents, each a
dict from terms to impacts. With PISA: ``document_transformer(C) >> index.toks_indexer(scale=1)`` indexes, and
``query_transformer(C) >> index.quantized(toks_scale=1)`` searches.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from learned_sparse.core.encoder import Encoder, encode_texts, load_encoder
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.lazy import import_extra
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.records import EXPANDED
from learned_sparse.search.query_encoder import QueryEncoder

DataFrame = Any
"""Of pandas, which has no types."""


def query_transformer(encoder: QueryEncoder | Encoder | str | Path, **options: Any) -> Any:
    """A transformer that adds ``query_toks``, the impacts of the column ``query``.

    ``encoder`` and ``options`` as in ``QueryEncoder``, or a ``QueryEncoder`` itself, such as
    ``QueryEncoder.from_index(INDEX)``.
    """
    pyterrier = import_extra("pyterrier", "pyterrier")
    queries_of = encoder if isinstance(encoder, QueryEncoder) else QueryEncoder(encoder, **options)

    def transform(queries: DataFrame) -> DataFrame:
        return queries.assign(query_toks=queries_of.encode_batch(queries["query"].tolist()))

    return pyterrier.apply.generic(transform, required_columns=["qid", "query"])


def document_transformer(encoder: Encoder | str | Path, quantizer: Quantizer | None = None, **options: Any) -> Any:
    """A transformer that adds ``toks``, the impacts of the column ``text``.

    ``encoder`` is the document side, or a checkpoint, with ``options`` of ``load_encoder``. ``quantizer`` defaults to
    the encoder's; an encoder whose quantiser is to be calibrated needs one.
    """
    pyterrier = import_extra("pyterrier", "pyterrier")
    documents_of = load_encoder(str(encoder), "document", **options) if isinstance(encoder, str | Path) else encoder
    chosen = quantizer or documents_of.quantizer
    if chosen is None:
        raise LearnedSparseError("this model stores no quantiser for documents; give one, such as Quantizer(100)")

    def transform(documents: DataFrame) -> DataFrame:
        weights = encode_texts(documents_of, [text.replace(EXPANDED, " ") for text in documents["text"].tolist()])
        impacts, _ = chosen.quantize(weights, documents["docno"].tolist())
        return documents.assign(toks=[impacts.row(row) for row in range(len(impacts))])

    return pyterrier.apply.generic(transform, required_columns=["docno", "text"])
