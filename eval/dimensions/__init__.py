"""The command eval.dimensions: ``counts`` of its dimensions, and what the ``texts`` of an index add."""
