"""Hyperparameter search: pure functions of the study and its trials so far, without any I/O."""
