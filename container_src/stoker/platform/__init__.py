"""SageMaker around the container, on this machine: the service's own API on loopback.

wire      HTTP and the AWS protocols; knows nothing of jobs
logs      the log streams on disk, and the calls that read them
around    what the service does around a container: channels, config files, sync, artifacts
engines   how one host's container (or process) is started, followed and ended
jobs      a job's life, composed from the four above
client    the user's side: finds or starts the server, speaks to it as any boto3 client does
"""
