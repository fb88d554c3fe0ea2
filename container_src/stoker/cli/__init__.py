"""The `stoker` command: verbs, the client of the platform, and what they show."""
