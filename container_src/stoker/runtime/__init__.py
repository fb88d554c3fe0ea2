"""The parent process in the container: reads the job, prepares, launches, watches, reports.

Standard library only. What needs boto3 or pip runs in a short-lived child process.
"""
