"""From runs and judgements to numbers and tables."""
