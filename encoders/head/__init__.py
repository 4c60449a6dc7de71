"""From hidden states to term weights: pooled vocabulary scores, the top k per token, and the shares of tokens in them.

Start reading in ``vocabulary_head`` (``pool``). All functions have gradients and
never hold a tensor (batch, tokens, vocabulary).
"""

__all__ = ["gradients", "shares", "token_top_k", "vocabulary_head"]
"""Public modules."""
