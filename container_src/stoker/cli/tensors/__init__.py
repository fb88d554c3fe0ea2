"""Saved tensors as `stoker tensors` shows them, from a folder or from S3."""
