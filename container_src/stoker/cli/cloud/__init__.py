"""What the verbs do with `--on sagemaker`."""
