"""The neural networks: architectures, their training, and checkpoints as encoders of text."""
