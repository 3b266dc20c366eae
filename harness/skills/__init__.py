"""Skills: where their bases lie, what they are called, what their frontmatter says. Read only."""
