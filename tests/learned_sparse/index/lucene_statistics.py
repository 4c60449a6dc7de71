"""All values of an index that a search can use, for the comparison of two indexes of the same vectors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from learned_sparse.lucene.reader import open_reader

END = 2**31 - 1


def statistics(index: Path) -> dict[str, Any]:
    """Fields, totals, terms, postings and norms; documents by id, since threads number them in any order."""
    reader = open_reader(index)
    try:
        leaf = reader.leaves().get(0).reader()
        assert reader.leaves().size() == 1
        names = [reader.storedFields().document(number).get("id") for number in range(reader.maxDoc())]
        terms = leaf.terms("contents")
        return {
            "documents": (reader.numDocs(), reader.maxDoc(), sorted(names)),
            "order": _order(leaf, names),
            "fields": dict(_fields(leaf)),
            "totals": (terms.size(), terms.getDocCount(), terms.getSumDocFreq(), terms.getSumTotalTermFreq()),
            "terms": dict(_terms(terms, names)),
            "ids": dict(_terms(leaf.terms("id"), names)),
            "norms": _norms(leaf, names),
        }
    finally:
        reader.close()


def _fields(leaf: Any) -> Iterator[tuple[str, tuple[Any, ...]]]:
    fields = leaf.getFieldInfos().iterator()
    while fields.hasNext():
        field = fields.next()
        yield (
            field.getName(),
            (
                field.getIndexOptions().toString(),
                field.getDocValuesType().toString(),
                field.hasNorms(),
                field.omitsNorms(),
                (field.hasVectors if hasattr(field, "hasVectors") else field.hasTermVectors)(),  # Lucene 9, 10
                field.hasPayloads(),
                dict(pair.split("=") for pair in field.attributes().toString()[1:-1].split(", ")),
            ),
        )


def _terms(terms: Any, names: list[str]) -> Iterator[tuple[str, tuple[int, int, dict[str, int]]]]:
    iterator = terms.iterator()
    while (term := iterator.next()) is not None:
        postings, frequencies = iterator.postings(None), {}
        while (document := postings.nextDoc()) != END:
            frequencies[names[document]] = postings.freq()
        yield term.utf8ToString(), (iterator.docFreq(), iterator.totalTermFreq(), frequencies)


def _norms(leaf: Any, names: list[str]) -> dict[str, int]:
    norms, by_document = leaf.getNormValues("contents"), {}
    while (document := norms.nextDoc()) != END:
        by_document[names[document]] = norms.longValue()
    return by_document


def _order(leaf: Any, names: list[str]) -> bool:
    """Whether the bytes that break ties are the ids."""
    values, ids = leaf.getBinaryDocValues("id"), []
    while values.nextDoc() != END:
        ids.append(values.binaryValue().utf8ToString())
    return ids == names
