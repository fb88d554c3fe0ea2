"""TensorBoard itself, on the curves and traces of a job."""
