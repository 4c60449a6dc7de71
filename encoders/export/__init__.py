"""Models in the layouts of other tools: sentence-transformers, Pyserini, OpenSearch; with a model card.

``exporting.export_model`` writes a folder. ``python -m encoders.export`` is the command.
"""

__all__ = ["exporting"]
"""Public modules."""
