"""Training: a recipe and text in, a checkpoint out, with one loop for every architecture.

Read ``recipe`` first, then ``loop``, which calls ``learner`` for each step and ``validation`` in between. Recipes are
read without torch.
"""

__all__ = ["loop", "recipe", "sources"]
"""Public modules."""
