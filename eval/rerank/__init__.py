"""Room eval.rerank."""
