"""Models in the layouts of other tools: sentence-transformers, Pyserini, OpenSearch; model cards and the Hub.

``exporting.export_model`` writes a folder, ``hub.push_to_hub`` uploads one. ``form`` says which models have such a
form, ``layouts`` writes the files, ``unicoil`` those of Pyserini's uniCOIL, ``card`` the model card.
``python -m encoders.export`` is the command.
"""

__all__ = ["exporting", "hub", "layouts"]
"""Public modules."""
