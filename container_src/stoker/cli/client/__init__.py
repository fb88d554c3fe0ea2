"""The platform as its users see it: find or start the server, submit a job, watch it."""
