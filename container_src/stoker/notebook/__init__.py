"""Stoker in a notebook: the local platform, and the SDK's rules as environment variables."""

from __future__ import annotations

from stoker.notebook.local_session import LocalSession, session
from stoker.notebook.rule_variables import rules_environment

__all__ = ["LocalSession", "rules_environment", "session"]
