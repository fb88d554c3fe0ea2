"""SageMaker on this machine: the service's own API on loopback. Each part imports those above it.

model     the values that all share: requests, the rules between their fields, the root folder
s3        S3 over a plain folder, as a process of its own
data      what is put into a container and taken out of it: channels, config files, sync, artifacts
engines   how the process of one host is started, followed and ended: in a container, or without
jobs      the stages of a training or processing job, its hosts, metrics and descriptions
tuning    searches: each trial is an ordinary training job
tracking  each job as a run: experiments, lineage, Search, MLflow
api       HTTP, the wire protocols, and one table of operations for each service
"""
