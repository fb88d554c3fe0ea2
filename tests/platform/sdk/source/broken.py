"""A user's script with a mistake."""

raise ValueError("the fire is out")
