"""What host commands need of the user's machine: Docker, terminal, environment, AWS session."""
