"""Where the time and the money of a job went, and what to change: one page, offline.

It composes what the capabilities have measured; `python -m stoker.report` makes it in the
container, `stoker report` on the user's machine.
"""
