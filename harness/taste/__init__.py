"""The taste loop: what an operator keeps and dismisses becomes hints that shape the next draft."""
