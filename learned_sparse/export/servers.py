"""Bulk files, mappings and queries of OpenSearch and Elasticsearch, which store impacts in Lucene's FeatureField."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.export.documents import FIELD, HITS, Documents, Vector, json_line, write_parts

MAX_FEATURE = 512
"""FeatureField keeps 9 significant bits of a weight and truncates the rest: integers up to 512 are exact."""
MAX_QUERY_WEIGHT = 64
"""Largest weight of FeatureField.newLinearQuery, which OpenSearch's neural_sparse calls."""
DIVISOR = 16
MAX_CLAUSES = 1024
"""indices.query.bool.max_clause_count."""

FORMATS = ("opensearch", "elasticsearch")
Body = Callable[[Mapping[str, float]], dict[str, Any]]


def export_opensearch(documents: Documents, folder: Path) -> None:
    """Documents as rank_features, a mapping type that OpenSearch has without a plug-in."""
    _write_documents(documents, folder, {"type": "rank_features"})


def export_elasticsearch(documents: Documents, folder: Path) -> None:
    """Documents as sparse_vector, without pruning."""
    _write_documents(documents, folder, {"type": "sparse_vector", "index_options": {"prune": False}})


def _write_documents(documents: Documents, folder: Path, field_type: Mapping[str, Any]) -> None:
    """Write ``mapping.json`` and ``bulk-*.ndjson``: an action and a document for each vector."""
    stored = {name: {"type": "text"} for name in documents.fields}
    properties = {"id": {"type": "keyword"}, **stored, FIELD: field_type}
    mapping = {"mappings": {"dynamic": "strict", "properties": properties}}
    (folder / "mapping.json").write_bytes(orjson.dumps(mapping, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    spelling = undotted(documents.terms)

    def lines() -> Iterator[bytes]:
        for name, vector, fields in documents.with_fields():
            impacts = {FIELD: {spelling[term]: impact for term, impact in vector.items()}} if vector else {}
            yield json_line({"index": {"_id": name}}) + json_line({"id": name, **fields, **impacts})

    write_parts(folder, "bulk.ndjson", lines())


def opensearch_queries(queries: Mapping[str, Vector], folder: Path, terms: Sequence[str]) -> dict[str, Any]:
    """Write both forms of the queries, and return the divisor of the first form."""
    divisor = query_divisor(queries.values())

    def neural_sparse(query: Mapping[str, float]) -> dict[str, Any]:
        weights = {term: weight / divisor for term, weight in query.items()}
        return {"neural_sparse": {FIELD: {"query_tokens": weights}}}

    def rank_feature(query: Mapping[str, float]) -> dict[str, Any]:
        clauses = [{"field": f"{FIELD}.{term}", "linear": {}, "boost": weight} for term, weight in query.items()]
        return {"bool": {"should": [{"rank_feature": clause} for clause in clauses]}}

    _write_queries(queries, folder / "queries-rank-feature.jsonl", terms, rank_feature)
    return _write_queries(queries, folder / "queries.jsonl", terms, neural_sparse) | {"query_divisor": divisor}


def elasticsearch_queries(queries: Mapping[str, Vector], folder: Path, terms: Sequence[str]) -> dict[str, Any]:
    """Write the queries as sparse_vector queries, without pruning."""

    def sparse_vector(query: Mapping[str, float]) -> dict[str, Any]:
        return {"sparse_vector": {"field": FIELD, "query_vector": dict(query), "prune": False}}

    return _write_queries(queries, folder / "queries.jsonl", terms, sparse_vector)


def query_divisor(queries: Iterable[Vector]) -> int:
    """1 if no weight is over 64, else 16, or the next power of two that is large enough.

    Dividing a float by a power of two is exact, so that scores times the divisor are the dot products.

    >>> query_divisor([{"hives": 64}]), query_divisor([{"hives": 65}]), query_divisor([{"hives": 1025}])
    (1, 16, 32)
    """
    largest = max((impact for query in queries for impact in query.values()), default=0)
    divisor = 1 if largest <= MAX_QUERY_WEIGHT else DIVISOR
    while largest / divisor > MAX_QUERY_WEIGHT:
        divisor *= 2
    return divisor


def undotted(terms: Iterable[str]) -> dict[str, str]:
    """Each term with two underscores for a dot, as in ELSER's vocabulary: rank_features reads a dot as an object.

    >>> undotted(["hives", "u.s"])
    {'hives': 'hives', 'u.s': 'u__s'}
    """
    spelling: dict[str, str] = {}
    first: dict[str, str] = {}
    for term in terms:
        spelling[term] = term.replace(".", "__")
        if (other := first.setdefault(spelling[term], term)) != term:
            raise LearnedSparseError(
                f"the terms {other!r} and {term!r} are both {spelling[term]!r} without dots; "
                "spell one of them differently in the vectors"
            )
    return spelling


def _write_queries(queries: Mapping[str, Vector], path: Path, terms: Sequence[str], body: Body) -> dict[str, Any]:
    spelling = undotted([*terms, *(term for query in queries.values() for term in query)])
    with path.open("xb") as file:
        for name, query in queries.items():
            matched = body({spelling[term]: impact for term, impact in query.items()}) if query else {"match_none": {}}
            ordered = [{"_score": "desc"}, {"id": "asc"}]
            file.write(
                json_line({"id": name, "body": {"size": HITS, "_source": ["id"], "sort": ordered, "query": matched}})
            )
    return {f"queries_over_{MAX_CLAUSES}_terms": sum(len(query) > MAX_CLAUSES for query in queries.values())}
