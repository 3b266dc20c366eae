"""The only door to disk: ticks go in, gated commits come out. Everything else computes; the store writes."""
