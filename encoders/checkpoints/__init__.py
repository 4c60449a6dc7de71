"""What a checkpoint folder holds besides weights, read without torch: notes, tokenizer and vocabulary.

Start reading in ``notes``. ``foreign`` reads folders of other tools, ``hub`` finds the folder of a model.
``encoders.encoding.model`` builds, loads and saves the model itself.
"""

__all__ = ["foreign", "hub", "notes", "tokenizer"]
"""Public modules."""
