"""Stoker on the user's machine: the commands, and the local platform in a notebook."""

from __future__ import annotations

from stoker.host.notebook import LocalSession, session

__all__ = ["LocalSession", "session"]
