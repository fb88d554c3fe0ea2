"""Rules on the user's machine: carried to the cloud, listed, explained, run over saved tensors."""
