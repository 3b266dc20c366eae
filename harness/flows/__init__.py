"""What spans capabilities: installing, observing, draining, reporting."""
