"""S3 on this machine: objects are plain files, what S3 knows about them is in an index."""
