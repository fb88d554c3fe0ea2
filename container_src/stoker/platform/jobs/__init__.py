"""A job's life: queue, start, download, train, upload, end; each step survives a kill -9."""
