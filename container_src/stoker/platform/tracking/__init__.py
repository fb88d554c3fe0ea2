"""Experiments, Search, metrics and lineage of the service, over the run store."""
