"""Terms and ids that Lucene, Pyserini and the vector files can store, and two reserved terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass

EMPTY_TERM = "[empty-vector]"
"""The only term of a document with an empty vector, which Anserini would drop; no query contains this term."""
NO_TERMS = "[no-terms]"
"""Placeholder for a query without terms in a topics file, where Pyserini cannot read an empty text; no document
contains this term."""
BM25_PREFIX = "b:"
"""Begins the terms of BM25 in vectors that join a model with it."""
RESERVED = frozenset({EMPTY_TERM, NO_TERMS})

LONGEST_TERM = 254
"""Maximum length in UTF-16 units (Java characters): Lucene's whitespace tokenizer splits longer terms."""

MAX_ID_BYTES = 32766
"""Maximum length of an id in UTF-8: Lucene's limit for a term that is not analyzed."""


def unfit_id_reason(name: str) -> str | None:
    r"""Reason why Lucene or a TREC run cannot hold the id ``name`` of a document or query; None if they can.

    >>> unfit_id_reason("d 1")
    "the id 'd 1' is empty or holds white space, which a TREC run cannot hold"
    """
    # Pyserini splits lines at all that Python takes for white space, trec_eval ends an id at NUL, and a byte order mark
    # in front is no part of a line.
    if name.split() != [name] or "\0" in name or name.startswith("\ufeff"):
        return f"the id {name[:60]!r} is empty or holds white space, which a TREC run cannot hold"
    if len(name) > MAX_ID_BYTES // 4 and (size := len(name.encode("utf-8", "surrogatepass"))) > MAX_ID_BYTES:
        return f"the id {name[:60]!r}... has {size:,} bytes, and Lucene holds {MAX_ID_BYTES:,}"
    if not name.isprintable() and any("\ud800" <= character <= "\udfff" for character in name):
        return f"the id {name[:60]!r} holds half a surrogate pair, which UTF-8 cannot encode"
    return None


def unfit_reason(term: str) -> str | None:
    """Reason why Lucene, Pyserini or a file cannot store ``term``; None if they can.

    >>> unfit_reason("new york")
    'it holds white space and would be split'
    >>> unfit_reason("##ing") is None
    True
    """
    if term.isascii() and term.isprintable() and " " not in term and len(term) < LONGEST_TERM and term[:1] != "[":
        return None if term else "it is empty"  # most terms, without the slower checks; reserved ones begin with "["
    # White space in Python includes all white space in Java; Pyserini splits topics at Python's white space.
    if term.split() != [term]:
        return "it holds white space and would be split"
    if len(term) > LONGEST_TERM // 2 and len(term.encode("utf-16-le", "surrogatepass")) // 2 > LONGEST_TERM:
        return f"it is longer than {LONGEST_TERM} characters and would be split"
    if not term.isprintable() and any("\ud800" <= character <= "\udfff" for character in term):
        return "it holds half a surrogate pair, which UTF-8 cannot encode"
    if term in RESERVED:
        return "this spelling is reserved for empty vectors"
    return None
