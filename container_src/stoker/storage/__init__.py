"""How bytes get to a disk and from S3: basics that several parts share, on host and container."""
