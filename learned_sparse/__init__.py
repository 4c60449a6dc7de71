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

from learned_sparse.core.lazy import LazyPackage

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
    from learned_sparse.collections.collection import Collection as Collection
    from learned_sparse.collections.collection import load_collection as load_collection
    from learned_sparse.collections.documents import Document as Document
    from learned_sparse.collections.topics import Query as Query
    from learned_sparse.core.encoder import Encoder as Encoder
    from learned_sparse.core.encoder import load_encoder as load_encoder
    from learned_sparse.core.errors import LearnedSparseError as LearnedSparseError
    from learned_sparse.core.quantize import Quantizer as Quantizer
    from learned_sparse.core.records import SparseBatch as SparseBatch
    from learned_sparse.encode.pipeline import write_vectors as write_vectors
    from learned_sparse.index.build import build_index as build_index
    from learned_sparse.jsonvector.reader import read_vectors as read_vectors
    from learned_sparse.lucene import LuceneImpactSearcher as LuceneImpactSearcher
    from learned_sparse.lucene.jvm import start_jvm as start_jvm
    from learned_sparse.lucene.searchers import ImpactSearcher as ImpactSearcher
    from learned_sparse.search.exact_searcher import ExactSearcher as ExactSearcher
    from learned_sparse.search.query_encoder import QueryEncoder as QueryEncoder

_NAMES = {
    "collections.collection": "Collection load_collection",
    "core.encoder": "Encoder load_encoder",
    "core.errors": "LearnedSparseError",
    "core.quantize": "Quantizer",
    "collections.documents": "Document",
    "collections.topics": "Query",
    "core.records": "SparseBatch",
    "encode.pipeline": "write_vectors",
    "index.build": "build_index",
    "jsonvector.reader": "read_vectors",
    "lucene": "LuceneImpactSearcher",
    "lucene.jvm": "start_jvm",
    "lucene.searchers": "ImpactSearcher",
    "search.exact_searcher": "ExactSearcher",
    "search.query_encoder": "QueryEncoder",
}
LAZY = {name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(["__version__", *LAZY])
sys.modules[__name__].__class__ = LazyPackage
