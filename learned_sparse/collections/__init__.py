"""Test collections and their files: documents, topics, judgements, runs, segments of long documents.

Read ``collection.py`` first: ``load_collection`` gives a ``Collection``, described by a YAML file or a folder's layout
(``descriptions.py``), by a name of ir_datasets (``catalogue.py``), or generated (``pydoc.py``). ``documents.py``,
``topics.py`` and ``trec.py`` read and write the files. ``python -m learned_sparse.collections`` lists what is known.
"""

__all__ = ["catalogue", "collection", "descriptions", "documents", "segments", "topics", "trec"]
"""Public modules."""
