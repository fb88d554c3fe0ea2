"""Checkpoints as `stoker checkpoints` shows them, in a folder or on S3."""
