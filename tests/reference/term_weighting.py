"""uniCOIL, DeepImpact, TILDEv2 and DeepCT as plain loops over the scores of one unpadded text."""

from __future__ import annotations

from collections.abc import Sequence


def term_weights(
    scores: Sequence[float],
    tokens: Sequence[int],
    terms: int,
    *,
    repeats: str,
    not_in_bag: Sequence[int] = (),
    separator: int | None = None,
    relu: bool = True,
    floor: float = 0.0,
) -> list[float]:
    """One side: the weight of a term is the ReLU of its scores, merged by ``repeats`` if it occurs several times.

    ``separator``: a special token that counts too, except at the end.
    """
    scores_by_token: dict[int, list[float]] = {}
    for i, token in enumerate(tokens):
        inner_separator = token == separator and i < len(tokens) - 1
        if token not in not_in_bag or inner_separator:
            scores_by_token.setdefault(token, []).append(max(0.0, scores[i]) if relu else scores[i])
    return [max(floor, merged(scores_by_token[j], repeats)) if j in scores_by_token else 0.0 for j in range(terms)]


def merged(scores: Sequence[float], repeats: str) -> float:
    """One weight for a term that occurs ``len(scores)`` times."""
    if repeats == "first":
        return scores[0]
    if repeats == "max":
        return max(scores)
    return sum(scores) / len(scores) if repeats == "mean" else sum(scores)


def bag(tokens: Sequence[int], terms: int, *, weighting: str, not_in_bag: Sequence[int] = ()) -> list[float]:
    """Bag of words of a query: ``binary`` or, with ``weighting="tf"``, term frequencies."""
    counts = [float(sum(token == j and j not in not_in_bag for token in tokens)) for j in range(terms)]
    return counts if weighting == "tf" else [min(1.0, count) for count in counts]


def words(tokens: Sequence[int], spellings: Sequence[str], special: Sequence[int]) -> list[list[int]]:
    """Positions of the pieces of each word; special tokens are in none and end a word."""
    found: list[list[int]] = []
    for i, token in enumerate(tokens):
        if token in special:
            continue
        if found and found[-1][-1] == i - 1 and spellings[token].startswith("##"):
            found[-1].append(i)
        else:
            found.append([i])
    return found


def recall_frequencies(
    scores: Sequence[float],
    tokens: Sequence[int],
    spellings: Sequence[str],
    special: Sequence[int],
    scale: float,
    root: bool,
) -> list[float]:
    """DeepCT: frequency of each term, the score of the first piece of a word for all its pieces, the largest counts."""
    weights = [0.0] * len(spellings)
    for positions in words(tokens, spellings, special):
        recall = max(0.0, scores[positions[0]])
        frequency = scale * recall**0.5 if root else scale * recall
        for i in positions:
            if root or frequency >= 1:
                weights[tokens[i]] = max(weights[tokens[i]], frequency)
    return weights


def recall_loss(
    scores: Sequence[Sequence[float]],
    documents: Sequence[Sequence[int]],
    queries: Sequence[Sequence[int]],
    spellings: Sequence[str],
    special: Sequence[int],
) -> float:
    """DeepCT: mean squared error over all words of all documents; target 1 for the words of the document's query."""
    errors = []
    for row, document, query in zip(scores, documents, queries, strict=True):
        asked = [[query[i] for i in positions] for positions in words(query, spellings, special)]
        for positions in words(document, spellings, special):
            target = 1.0 if [document[i] for i in positions] in asked else 0.0
            errors.append((row[positions[0]] - target) ** 2)
    return sum(errors) / len(errors)
