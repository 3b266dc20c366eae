"""The taste loop: shapes, counts, hints, drafts and their decisions."""
