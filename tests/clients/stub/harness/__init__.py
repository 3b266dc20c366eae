"""Stands where the installed program would be, so that a test sees which command a hook starts."""
