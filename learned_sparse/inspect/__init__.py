"""Why a document has its score: term weights of texts, documents and queries, with the words they come from.

``python -m learned_sparse.inspect`` shows it on the terminal, ``learned_sparse.serve`` in a browser. Read
``explanation`` first (the records), then ``inspection`` (texts, encoders and impacts of an index) and ``rendering``
(the terminal).
"""

__all__ = ["explanation", "inspection"]
"""Public modules."""
