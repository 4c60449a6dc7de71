"""Training data: a recipe's sources as examples with hard negatives, and examples as batches of tokens.

Read ``examples`` first, then ``files`` and ``sources``, ``negatives`` and ``mining``, and ``batches``.
"""

__all__ = ["batches", "examples", "mining", "negatives", "scores", "sources", "texts"]
"""Public modules."""
