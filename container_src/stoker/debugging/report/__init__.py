"""The page of a run that rules have watched: how it ended, what was found, the losses."""

from stoker.debugging.report.page import Report, render_report

__all__ = ["Report", "render_report"]
