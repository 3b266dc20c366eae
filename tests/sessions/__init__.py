"""Sessions: every broken line counted, every turn shown once."""
