"""Models in the layouts of other tools: sentence-transformers, Pyserini, OpenSearch; model cards and the Hub.

``export_model`` writes a folder, ``push_to_hub`` uploads one. ``form`` says which models have such a form, ``layouts``
writes the files, ``unicoil`` those of Pyserini's uniCOIL, ``card`` the model card.
``python -m encoders.export`` is the command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from learned_sparse.core.lazy import lazy_names

if TYPE_CHECKING:
    from encoders.export.exporting import TARGETS, export_model
    from encoders.export.hub import push_to_hub

__all__ = ["TARGETS", "export_model", "push_to_hub"]

_MODULES = {"push_to_hub": "hub"}
__getattr__, __dir__ = lazy_names(__name__, {name: f"{__name__}.{_MODULES.get(name, 'exporting')}" for name in __all__})
