"""The operator approval loop: at most one automatic dispatch attempt per approved decision; not exactly-once delivery."""
