"""Models in the layouts of other tools: sentence-transformers, Pyserini, OpenSearch; with a model card.

``exporting.export_model`` writes a folder. ``form`` says which models have such a form, ``layouts`` writes the files,
``unicoil`` those of Pyserini's uniCOIL, ``card`` the model card. ``python -m encoders.export`` is the command.
"""

__all__ = ["exporting", "layouts"]
"""Public modules."""
