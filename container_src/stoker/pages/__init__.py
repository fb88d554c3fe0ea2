"""The shell, theme and shared script of every page that Stoker writes, in container and host."""
