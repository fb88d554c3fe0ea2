"""Stoker on the user's machine: the commands, and the local platform in a notebook."""

from __future__ import annotations

from stoker.notebook.local_session import LocalSession, session
from stoker.notebook.rule_variables import rules_environment

__all__ = ["LocalSession", "rules_environment", "session"]
