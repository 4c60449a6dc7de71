"""A local page over one or more indexes of a collection: search, compare two systems, explain scores, weigh any text.

The command is ``python -m learned_sparse.serve``. Read ``content`` first (indexes, texts and judged queries), then
``api`` (the JSON API) and ``static`` (the page, which uses the API).
Explanations are the records of ``learned_sparse.inspect``. ``embed`` serves encoders to clients of
text-embeddings-inference; ``guard`` limits what reaches the application.
"""
