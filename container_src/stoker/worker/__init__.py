"""What runs in each user process: autoload, import watch, the job as a script sees it."""
