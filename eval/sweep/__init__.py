"""Room eval.sweep."""
