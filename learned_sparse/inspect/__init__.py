"""Room learned_sparse.inspect."""
