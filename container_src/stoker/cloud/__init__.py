"""SageMaker itself: the same request as on this machine, sent to an account of AWS."""
