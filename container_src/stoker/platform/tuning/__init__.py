"""Tuning jobs: each trial is an ordinary training job of `jobs`."""
