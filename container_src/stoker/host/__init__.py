"""Stoker on the user's machine: the commands, and the local platform in a notebook."""

from __future__ import annotations

from stoker.host.notebook import LocalSession, session
from stoker.host.rules.environment import rules_environment

__all__ = ["LocalSession", "rules_environment", "session"]
