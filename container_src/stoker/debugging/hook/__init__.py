"""Saving tensors of a script that knows nothing of it."""
