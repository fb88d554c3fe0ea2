"""Each message as a file: what was sent, to whom, when, and whether it went out."""

from __future__ import annotations

import json
import os
import re

from stoker.contract.files import write_atomically
from stoker.contract.rule_status import now_text
from stoker.debugging.actions.notice import Notice
from stoker.debugging.actions.webhook import public_part
from stoker.debugging.specs import Action


class NotificationFiles:
    """Numbered files in one folder; a full disk costs the file and not the message."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._count = 0

    def write(self, action: Action, notice: Notice, outcome: str) -> None:
        """Leaves one file, such as 000-VanishingGradient-email.json."""
        name = re.sub(r"[^\w.-]+", "_", notice.rule)[:80]
        path = f"{self._folder}/{self._count:03}-{name}-{action.kind}.json"
        self._count += 1
        is_url = action.kind == "webhook"
        fields = {
            "time": now_text(),
            "job": notice.job,
            "rule": notice.rule,
            "step": notice.step,
            "kind": action.kind,
            "target": public_part(action.target) if is_url else action.target,
            "subject": notice.subject,
            "message": notice.text,
            "outcome": outcome,
        }
        try:
            os.makedirs(self._folder, exist_ok=True)
            write_atomically(path, json.dumps(fields, indent=1) + "\n")
        except OSError:
            return
