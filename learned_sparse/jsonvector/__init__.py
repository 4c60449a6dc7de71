"""Encoded documents and queries as files: Anserini's JsonVectorCollection, topics, and their manifest.

``read_vectors`` iterates documents, ``load_vectors`` reads them into arrays, and ``open_part`` writes a file. A
``Manifest`` beside the files records their origin, counts and checksums. Read ``manifest`` first, then ``reader``,
``writer`` and ``queries``; ``weights`` quantises documents of other tools, ``pruning`` removes frequent terms.
"""

__all__ = ["manifest", "pruning", "queries", "reader", "weights", "writer"]
"""Public modules."""
