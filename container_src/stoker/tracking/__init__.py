"""The run store: parameters, metric series, artifacts, status and lineage of trainings."""
