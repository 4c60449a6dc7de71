"""Why a document has its score: term weights of texts, documents and queries, with the words they come from.

``python -m learned_sparse.inspect`` shows it on the terminal, ``learned_sparse.serve`` in a browser. Read
``explanation`` first (the records and their JSON), then ``inspection`` (where texts, encoders and impacts come from,
with ``sources`` and ``analyzed``) and ``rendering`` (terminal and HTML).
"""

from __future__ import annotations

from learned_sparse.inspect.explanation import Inspection, TextView, word_contributions
from learned_sparse.inspect.inspection import IndexInspector
from learned_sparse.inspect.sources import encoded_documents

__all__ = ["IndexInspector", "Inspection", "TextView", "encoded_documents", "word_contributions"]
