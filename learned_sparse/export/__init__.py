"""Encoded documents and queries as files of other engines.

Read ``exporting`` first: the formats, and what each engine holds exactly. ``documents`` reads and counts documents;
``inverted`` writes CIFF and PISA, ``servers`` OpenSearch and Elasticsearch, ``tables`` Seismic, Qdrant, pgvector,
Parquet and lsr-benchmark. The command is ``python -m learned_sparse.export``.
"""

__all__ = ["exporting", "inverted", "tables"]
"""Public modules."""
