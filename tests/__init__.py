"""A package, so that it is found before the packages named tests that other distributions install."""
