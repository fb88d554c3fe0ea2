"""Stoker in a notebook: the local platform; rules and the commit of the code as variables."""

from __future__ import annotations

from stoker.machine.checkout import git_environment
from stoker.notebook.local_session import LocalSession, session
from stoker.notebook.rule_variables import rules_environment

__all__ = ["LocalSession", "git_environment", "rules_environment", "session"]
