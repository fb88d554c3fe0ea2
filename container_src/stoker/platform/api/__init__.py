"""HTTP and the AWS protocols on loopback; one module per service's operations."""
