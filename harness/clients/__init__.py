"""What each hook event of each client does, and how the hooks get into a client's settings."""
