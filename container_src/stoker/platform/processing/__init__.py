"""Processing jobs: what differs from training jobs, on whose mechanism they run."""
