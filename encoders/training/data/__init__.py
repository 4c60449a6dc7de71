"""Training data: a recipe's sources as examples with hard negatives, and examples as batches of tokens.

Read ``examples`` first, then ``files``, ``sources`` and ``batches``.
"""

__all__ = ["batches", "examples", "sources"]
"""Public modules."""
