"""The step recorder: where the time of each training step goes, from torch's hooks."""
