"""Why a document has its score: term weights of texts, documents and queries, with the words they come from.

Only the command ``python -m learned_sparse.inspect`` uses this room. Read ``explanation`` first (the records and their
JSON), then ``inspection`` (where texts, encoders and impacts come from) and ``rendering`` (terminal and HTML).
"""
