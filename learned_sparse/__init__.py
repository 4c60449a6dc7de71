"""Learned sparse retrieval for Pyserini: texts to impact vectors, Lucene indexes and runs.

The names below are the public interface; they are imported at first use, so ``import learned_sparse`` starts neither
Java nor torch. Each command is ``python -m learned_sparse.NAME``. Read ``learned_sparse.core.records`` and
``learned_sparse.core.encoder`` first, then ``learned_sparse.encode``, ``index`` and ``search``.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from learned_sparse.core.lazy import lazy_names

__version__ = "0.1.0"


def missing_package(error: ModuleNotFoundError) -> str:
    """The message of a command about a package that this Python lacks; ``core`` needs packages, so it is here."""
    other = Path(".venv") / "bin" / "python"
    way_out = "install it, or run the command with the Python that learned-sparse was installed with"
    if other.exists() and other.parent.absolute() != Path(sys.executable).parent:
        way_out = f"run the command with {other} -m, or activate .venv first"
    return f"{sys.executable} has no package {error.name!r}; {way_out}"


if sys.argv[0] == "-m":  # so it is while ``python -m`` imports the package of a command
    try:
        for package in ("numpy", "orjson", "yaml"):  # which every command needs
            importlib.import_module(package)
    except ModuleNotFoundError as error:
        print(f"error: {missing_package(error)}", file=sys.stderr)
        sys.exit(2)

if TYPE_CHECKING:
    from learned_sparse.collections.collection import Collection, load_collection
    from learned_sparse.core.encoder import Encoder, load_encoder
    from learned_sparse.core.errors import LearnedSparseError
    from learned_sparse.core.quantize import Quantizer
    from learned_sparse.core.records import Document, Query, SparseBatch
    from learned_sparse.encode.pipeline import write_vectors
    from learned_sparse.index.build import build_index
    from learned_sparse.jsonvector.reader import read_vectors
    from learned_sparse.lucene import LuceneImpactSearcher
    from learned_sparse.lucene.jvm import start_jvm
    from learned_sparse.lucene.searchers import ImpactSearcher
    from learned_sparse.search.exact_searcher import ExactSearcher
    from learned_sparse.search.query_encoder import QueryEncoder

_MODULES = {
    "Collection": "collections.collection",
    "Document": "core.records",
    "Encoder": "core.encoder",
    "ExactSearcher": "search.exact_searcher",
    "ImpactSearcher": "lucene.searchers",
    "LearnedSparseError": "core.errors",
    "LuceneImpactSearcher": "lucene",
    "Quantizer": "core.quantize",
    "Query": "core.records",
    "QueryEncoder": "search.query_encoder",
    "SparseBatch": "core.records",
    "build_index": "index.build",
    "load_collection": "collections.collection",
    "load_encoder": "core.encoder",
    "read_vectors": "jsonvector.reader",
    "start_jvm": "lucene.jvm",
    "write_vectors": "encode.pipeline",
}

__all__ = [
    "Collection",
    "Document",
    "Encoder",
    "ExactSearcher",
    "ImpactSearcher",
    "LearnedSparseError",
    "LuceneImpactSearcher",
    "Quantizer",
    "Query",
    "QueryEncoder",
    "SparseBatch",
    "__version__",
    "build_index",
    "load_collection",
    "load_encoder",
    "read_vectors",
    "start_jvm",
    "write_vectors",
]

__getattr__, __dir__ = lazy_names(__name__, {name: f"{__name__}.{room}" for name, room in _MODULES.items()})
