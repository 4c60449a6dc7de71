"""Room eval.breakdown."""
