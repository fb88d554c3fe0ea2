"""Looks at this machine before a job does: checks by subject, each finding with its fix."""
