"""Training: losses, regularisers, data and one loop for every architecture."""
