"""Where a job's hosts run: containers of the Docker engine, or processes under a keeper."""
