"""HTTP and the AWS protocols on loopback; knows nothing of jobs."""
