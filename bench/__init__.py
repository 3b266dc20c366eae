"""Benchmarks: ratios of medians within one interleaved run, since absolute times say more about the machine than about us."""
