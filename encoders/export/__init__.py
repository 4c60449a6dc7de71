"""Models in the layouts of other tools: sentence-transformers, Pyserini, OpenSearch; with a model card.

``exporting.export_model`` writes a folder, ``card`` its model card. ``python -m encoders.export`` is the command.
"""

__all__ = ["exporting"]
"""Public modules."""
