"""Views of runs for `stoker runs`."""
