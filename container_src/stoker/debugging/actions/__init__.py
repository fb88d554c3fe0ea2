"""What follows when a rule fires: the job is stopped, a message is sent."""

from stoker.debugging.actions.notice import Notice
from stoker.debugging.actions.runner import ActionRunner

__all__ = ["ActionRunner", "Notice"]
