"""Teachers: models that score pairs of a query and a document, and files of their scores for distillation.

Read ``scorers`` first. ``python -m encoders.teach`` scores the pairs of runs; ``cross_encoder`` trains a cross-encoder
on the data of a recipe, with sentence-transformers' trainer.
"""

__all__ = ["cross_encoder", "scorers"]
"""Public modules."""
