"""Models in memory and their sides as encoders of text.

Start reading in ``loading`` (``load_encoder``) and ``encoder`` (``CheckpointEncoder``); ``model`` creates, saves and
loads whole models. A side that learns nothing is encoded without torch and transformers.
"""

__all__ = ["bag_of_words", "encoder", "loading", "model"]
"""Public modules."""
