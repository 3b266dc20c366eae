"""Loaders that correct themselves: feedback, queue, controller, brief, reply. Pure: data in, data out."""
