"""The networks under the models: pretrained Hugging Face transformers as towers, on a device and in a data type.

Start reading in ``towers`` (``LanguageModel``: hidden states and decoder).
"""

__all__ = ["device", "hidden_states", "lora", "towers"]
"""Public modules."""
