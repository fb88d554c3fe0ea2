"""What the service does around the container: input in, config files, folders synced, output."""
