"""Looks at this machine before a job does: one file per check, each finding with its fix."""
