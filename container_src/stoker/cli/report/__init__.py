"""`stoker report` and `stoker advise`: where a job's profile is, and experiments on it."""
