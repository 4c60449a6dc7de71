"""What a run keeps and reports: its folder with the last state and the best weights, and its log.

Read ``folder`` first; ``tensors`` writes the safetensors of a state, ``journal`` the log.
"""

__all__ = ["folder", "journal", "tensors"]
"""Public modules."""
