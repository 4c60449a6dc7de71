"""A whole search of Lucene as one call from Python, its loops composed of Java's method handles.

A call from Python into Java costs microseconds and Python's lock: one for each term of a query and for each of 1,000
hits would take longer than the search. Nothing is compiled or shipped for it: ``java.lang.invoke`` is in every Java.
"""

from __future__ import annotations

from typing import Any

from learned_sparse.lucene.method_handles import Java

_TEXT, _TERM = "Ljava/lang/String;", "Lorg/apache/lucene/index/Term;"
_QUERY, _TOP = "Lorg/apache/lucene/search/Query;", "Lorg/apache/lucene/search/TopFieldDocs;"
_BUILDER = "Lorg/apache/lucene/search/BooleanQuery$Builder;"
_HITS, _HIT = "[Lorg/apache/lucene/search/ScoreDoc;", "Lorg/apache/lucene/search/FieldDoc;"
_LINES, _SORT = "Ljava/util/StringJoiner;", "Lorg/apache/lucene/search/Sort;"


class SearchLoop:
    """A question and ``k`` to the text of the best ``k`` hits: a line with the score, a line with the id, and so on.

    Hits are sorted as Anserini's searchers sort them: by score, then by ``id``.
    """

    def __init__(self, searcher: Any, query: Any, *, rescored: bool) -> None:
        """``searcher`` is Lucene's ``IndexSearcher``, ``query`` a handle from a question to its ``Query``.

        ``rescored``: the score of a hit is computed once more, by itself, as Anserini asks; sums of fractions may then
        differ in the last digit from those that the hits were sorted by.
        """
        from jnius import autoclass

        self._list, self._integer = autoclass("java.util.ArrayList"), autoclass("java.lang.Integer")
        java = Java()
        search = java.method("org.apache.lucene.search.IndexSearcher", "search", f"({_QUERY}I{_SORT}Z){_TOP}")
        search = java.insert(search, 4, autoclass("java.lang.Boolean")(rescored))
        search = java.insert(java.insert(search, 0, searcher), 2, _by_score_then_id())  # (query, k)
        self._search = java.then(java.collect(search, 0, query), _text_of(java, rescored))

    def __call__(self, *question: Any, k: int) -> str:
        """The empty text where nothing is found."""
        arguments = self._list()
        for argument in (*question, self._integer(k)):
            arguments.add(argument)
        text: str = self._search.invokeWithArguments(arguments)
        return text


def _by_score_then_id() -> Any:
    """``SimpleImpactSearcher.BREAK_SCORE_TIES_BY_DOCID``, which is private."""
    from jnius import autoclass

    field = autoclass("org.apache.lucene.search.SortField")
    by_id = field("id", autoclass("org.apache.lucene.search.SortField$Type").STRING_VAL)
    return autoclass("org.apache.lucene.search.Sort")(field.FIELD_SCORE, by_id)


def impact_query() -> Any:
    """``(String[] terms, float[] boosts) -> Query`` as Anserini's ``SimpleImpactSearcher`` makes it of impacts.

    A clause ``SHOULD`` for each term in the field ``contents``, boosted by the impact; there is at least one.
    """
    from jnius import autoclass

    java = Java()
    lucene = "org.apache.lucene."
    term = java.insert(java.new(f"{lucene}index.Term", f"({_TEXT}{_TEXT})V"), 0, "contents")
    term_query = java.then(term, java.new(f"{lucene}search.TermQuery", f"({_TERM})V"))
    boosted = java.new(f"{lucene}search.BoostQuery", f"({_QUERY}F)V")
    clause = java.collect(boosted, 0, java.typed(term_query, f"({_TEXT}){_QUERY}"))  # (term, boost)
    should = autoclass("org.apache.lucene.search.BooleanClause$Occur").SHOULD
    builder = f"{lucene}search.BooleanQuery$Builder"
    add = java.method(builder, "add", f"({_QUERY}Lorg/apache/lucene/search/BooleanClause$Occur;){_BUILDER}")
    step = java.collect(java.insert(add, 2, should), 1, java.typed(clause, f"({_TEXT}F){_QUERY}"))
    step = java.collect(step, 1, java.element(f"[{_TEXT}"))  # (builder, terms, place, boost)
    step = java.collect(step, 3, java.element("[F"))  # (builder, terms, place, boosts, place)
    body = java.order(step, f"({_BUILDER}I[{_TEXT}[F){_BUILDER}", 0, 2, 1, 3, 1)
    filled = java.loop(f"[{_TEXT}", java.new(builder, "()V"), body)
    built = java.then(filled, java.method(builder, "build", "()Lorg/apache/lucene/search/BooleanQuery;"))
    return java.typed(built, f"([{_TEXT}[F){_QUERY}")


def text_query(analyzer: Any) -> Any:
    """``(String text) -> Query`` as Anserini's ``SimpleSearcher`` makes it."""
    from jnius import autoclass

    java = Java()
    kind = f"({_TEXT}Lorg/apache/lucene/analysis/Analyzer;{_TEXT}){_QUERY}"
    generator = "io.anserini.search.query.BagOfWordsQueryGenerator"
    query = java.insert(java.method(generator, "buildQuery", kind), 0, autoclass(generator)())
    return java.insert(java.insert(query, 0, "contents"), 0, analyzer)


def _text_of(java: Java, rescored: bool) -> Any:
    """``(TopFieldDocs) -> String``; the values that a hit was sorted by are its score and its id."""
    from jnius import autoclass, cast

    hit = java.typed(java.element(_HITS), f"({_HITS}I){_HIT}")
    values = java.then(hit, java.field("org.apache.lucene.search.FieldDoc", "fields", "[Ljava/lang/Object;"))
    value, integer = java.element("[Ljava/lang/Object;"), autoclass("java.lang.Integer")
    score, name = (java.then(values, java.insert(value, 1, integer(place))) for place in (0, 1))
    if rescored:
        score = java.then(java.element(_HITS), java.number("org.apache.lucene.search.ScoreDoc", "score"))
    # As a double: Java spells a float by as few digits as tell it from its neighbours.
    score = java.then(java.typed(score, f"({_HITS}I)D"), java.static("java.lang.String", "valueOf", f"(D){_TEXT}"))
    name = java.typed(name, f"({_HITS}I)Lorg/apache/lucene/util/BytesRef;")
    name = java.then(name, java.method("org.apache.lucene.util.BytesRef", "utf8ToString", f"(){_TEXT}"))
    add = java.method("java.util.StringJoiner", "add", f"(Ljava/lang/CharSequence;){_LINES}")
    add = java.typed(add, f"({_LINES}{_TEXT}){_LINES}")
    both = java.collect(java.collect(add, 1, name), 0, java.collect(add, 1, score))
    body = java.order(both, f"({_LINES}I{_HITS}){_LINES}", 0, 2, 1, 2, 1)
    line_end = cast("java.lang.CharSequence", autoclass("java.lang.String")("\n"))
    none = java.insert(java.new("java.util.StringJoiner", "(Ljava/lang/CharSequence;)V"), 0, line_end)
    lines = java.then(java.loop(_HITS, none, body), java.method("java.util.StringJoiner", "toString", f"(){_TEXT}"))
    hits = java.field("org.apache.lucene.search.TopDocs", "scoreDocs", _HITS)
    return java.typed(java.collect(lines, 0, hits), f"({_TOP}){_TEXT}")
