"""Learned sparse retrieval for Pyserini: texts to impact vectors, Lucene indexes and runs.

The names below are the public interface; they are imported at first use, so ``import learned_sparse`` starts neither
Java nor torch. Each command is ``python -m learned_sparse.NAME``. Read ``learned_sparse.core.records`` and
``learned_sparse.core.encoder`` first, then ``learned_sparse.encode``, ``index`` and ``search``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

__version__ = "0.1.0"


def missing_package(error: ModuleNotFoundError) -> str:
    """The message of a command about a package that this Python lacks; it is here because ``core`` needs packages."""
    other = Path(".venv") / "bin" / "python"
    way_out = "install it, or run the command with the Python that learned-sparse was installed with"
    if other.exists() and other.parent.absolute() != Path(sys.executable).parent:
        way_out = f"run the command with {other} -m, or activate .venv first"
    return f"{sys.executable} has no package {error.name!r}; {way_out}"


try:
    from learned_sparse.core import lazy_names
except ModuleNotFoundError as error:
    if sys.argv[0] != "-m":  # so it is while ``python -m`` imports the package of a command
        raise
    print(f"error: {missing_package(error)}", file=sys.stderr)
    sys.exit(2)

if TYPE_CHECKING:
    from learned_sparse.collections import Collection, load_collection
    from learned_sparse.core import (
        Document,
        Encoder,
        LearnedSparseError,
        Quantizer,
        Query,
        SparseBatch,
        load_encoder,
    )
    from learned_sparse.encode import write_vectors
    from learned_sparse.index import build_index
    from learned_sparse.jsonvector import read_vectors
    from learned_sparse.lucene import ImpactSearcher, LuceneImpactSearcher, start_jvm
    from learned_sparse.search import ExactSearcher, QueryEncoder

_MODULES = {
    "Collection": "collections",
    "Document": "core",
    "Encoder": "core",
    "ExactSearcher": "search",
    "ImpactSearcher": "lucene",
    "LearnedSparseError": "core",
    "LuceneImpactSearcher": "lucene",
    "Quantizer": "core",
    "Query": "core",
    "QueryEncoder": "search",
    "SparseBatch": "core",
    "build_index": "index",
    "load_collection": "collections",
    "load_encoder": "core",
    "read_vectors": "jsonvector",
    "start_jvm": "lucene",
    "write_vectors": "encode",
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
