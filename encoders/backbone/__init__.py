"""The networks under the models: pretrained Hugging Face transformers as towers, on a device and in a data type.

Start reading in ``towers`` (``LanguageModel``: hidden states and decoder); ``pretrained`` loads what is inside.
"""

__all__ = ["device", "hidden_states", "inference", "lora", "pretrained", "towers"]
"""Public modules."""
