"""The torture rig: stops operations of the store at each of their system calls, and lets a crowd work in one workspace."""
