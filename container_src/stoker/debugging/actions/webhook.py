"""Telling a program on the web: one POST of JSON, tried twice."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from urllib.parse import urlsplit

from stoker.debugging.actions.notice import Notice
from stoker.errors import ActionFailed

TRY_SECONDS = 10.0
_TRIES = 2


def post(notice: Notice, url: str) -> str:
    """Posts a notice; any answer of the two hundreds will do.

    Raises:
        ActionFailed: no answer, or a refusal. Only the host of the URL is shown.
    """
    request = urllib.request.Request(  # noqa: S310 - specs accept http and https only
        url,
        data=json.dumps(notice.as_json()).encode(),
        headers={"Content-Type": "application/json", "User-Agent": "stoker"},
        method="POST",
    )
    for attempt in range(1, _TRIES + 1):
        try:
            with urllib.request.urlopen(request, timeout=TRY_SECONDS) as answer:  # noqa: S310 - as above
                return f"posted, {answer.status}"
        except urllib.error.HTTPError as error:
            # An answer below 500 would be the same the second time.
            why, is_final = f"answered {error.code}", error.code < 500
            error.close()
        except (OSError, ValueError) as error:
            why, is_final = str(getattr(error, "reason", error)), False
        if is_final or attempt == _TRIES:
            break
    raise ActionFailed(f"{public_part(url)} {why}", fix="try it with curl -d '{}' URL")


def public_part(url: str) -> str:
    """The host: paths and queries of webhooks are their passwords."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}/…"
