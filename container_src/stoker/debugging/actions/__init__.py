"""What follows when a rule fires: the job is stopped, somebody is told."""

from stoker.debugging.actions.notice import Notice
from stoker.debugging.actions.runner import ActionRunner

__all__ = ["ActionRunner", "Notice"]
