"""The log streams of jobs: kept on disk, and read through the API of CloudWatch Logs."""
