"""The shell and the theme of every page that Stoker writes, in the container and on the host."""
