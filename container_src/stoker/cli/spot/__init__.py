"""What spot interruptions do to a training job: traces of them, and a simulation over them."""
