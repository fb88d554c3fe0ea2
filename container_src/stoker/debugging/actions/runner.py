"""Running the actions of rules in threads, each within its time, and recording each message."""

from __future__ import annotations

import json
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Sequence

from stoker.contract.debugger import DRY_RUN_VARIABLE, SMTP_VARIABLE, notifications_dir
from stoker.contract.files import now_text, write_atomically
from stoker.contract.job import Job
from stoker.contract.secrets import Masker
from stoker.debugging.actions.mail import MailServer, read_mail_server, send
from stoker.debugging.actions.notice import Notice
from stoker.debugging.actions.stopping import stop_job
from stoker.debugging.actions.webhook import post, public_part
from stoker.debugging.specs import Action, RuleSpec
from stoker.errors import ActionFailed, RuleInvalid

_OFF = ("", "0", "false", "no", "off")


class ActionRunner:
    """Takes what is to be done and does it: of a rule its stop first, then its messages.

    Messages go out one after the other; no stop waits for those of another rule, which may hang.
    Nothing of it can harm the evaluation: an action that fails is a warning.
    """

    def __init__(self, job: Job, *, say: Callable[[str], None]) -> None:
        """Args:
        job: the one whose rules these are.
        say: prints one line.
        """
        self._job = job
        server, self._server_fault = _mail_server(job)
        self._server = server
        password = {"smtp_password": server.password} if server else {}
        self._mask = Masker(job.environ, password)
        self._print = say
        self._is_dry_run = job.environ.get(DRY_RUN_VARIABLE, "").lower() not in _OFF
        self._files = NotificationFiles(notifications_dir(job.paths))
        self._stops = WorkerThread("stops")
        self._messages = WorkerThread("messages")

    def start(self, spec: RuleSpec, notice: Notice) -> None:
        """Has the actions of a rule carried out; returns at once."""
        is_dry = spec.is_dry_run or self._is_dry_run
        stops = [action for action in spec.actions if action.kind == "stop"]
        messages = [action for action in spec.actions if action.kind != "stop"]

        def stop() -> None:
            self._do(stops, notice, is_dry=is_dry)
            tell()

        def tell() -> None:
            if messages:
                self._messages.put(lambda: self._do(messages, notice, is_dry=is_dry))

        if stops:
            self._stops.put(stop)
        else:
            tell()

    def close(self, *, limit_seconds: float) -> None:
        """Waits until everything is done, or the time is over, and says which."""
        deadline = time.monotonic() + limit_seconds
        # In this order: what stops leads to messages.
        threads = (self._stops, self._messages)
        if not all(thread.close(limit_seconds=deadline - time.monotonic()) for thread in threads):
            self._warn(f"actions of rules were not done after {limit_seconds:.0f} s: given up")

    def _do(self, actions: Sequence[Action], notice: Notice, *, is_dry: bool) -> None:
        for action in actions:
            what = _in_words(action)
            try:
                outcome = "dry run" if is_dry else self._carry_out(action, notice)
            except ActionFailed as error:
                outcome = f"failed: {error.message}"
                fix = f" (fix: {error.fix})" if error.fix else ""
                self._warn(f"rule {notice.rule} could not {what}: {error.message}{fix}")
            except Exception as error:  # a thread that dies would take the others' actions along
                outcome = f"failed: {error!r}"
                self._warn(f"rule {notice.rule} could not {what}: {error!r}")
            else:
                done = f"would {what} (dry run)" if is_dry else f"acts: {what} ({outcome})"
                self._say(f"rule {notice.rule} {done}")
            if action.kind != "stop":
                self._files.write(action, notice, self._mask(outcome))

    def _carry_out(self, action: Action, notice: Notice) -> str:
        if action.kind == "stop":
            return stop_job(self._job, notice, prefix=action.target, say=self._warn)
        if action.kind == "webhook":
            return post(notice, action.target)
        if action.kind == "email" and self._server is not None:
            return send(notice, action.target, self._server)
        if action.kind == "email" and self._server_fault:
            raise ActionFailed(self._server_fault)
        return self._publish(action, notice)

    def _publish(self, action: Action, notice: Notice) -> str:
        # boto3 takes a second to import, and many a machine has none.
        try:
            from stoker.debugging.actions.aws import publish
        except ImportError:
            raise ActionFailed(
                "there is neither a mail server nor AWS", fix=f"set {SMTP_VARIABLE} for e-mail"
            ) from None
        return publish(notice, kind=action.kind, target=action.target, region=self._job.region)

    def _warn(self, text: str) -> None:
        self._say(f"warning: {text}")

    def _say(self, text: str) -> None:
        self._print(self._mask(text))


def _mail_server(job: Job) -> tuple[MailServer | None, str]:
    url = job.environ.get(SMTP_VARIABLE, "")
    if not url:
        return None, ""
    try:
        return read_mail_server(url), ""
    except RuleInvalid as error:
        return None, str(error)


def _in_words(action: Action) -> str:
    if action.kind == "stop":
        return "stop the job"
    if action.kind == "webhook":
        return f"post to {public_part(action.target)}"
    return f"send {'e-mail' if action.kind == 'email' else 'an SMS'} to {action.target}"


_LAST_SECONDS = 1.0
"""For a thread that has nothing left to do: it ends at once."""


class WorkerThread:
    """Its thread starts with the first work, and never keeps the process alive."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._undone = 0
        self._is_less_undone = threading.Condition()

    def put(self, work: Callable[[], None]) -> None:
        """Has it done after what was put in before; returns at once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        with self._is_less_undone:
            self._undone += 1
        self._queue.put(work)

    def close(self, *, limit_seconds: float) -> bool:
        """Waits until everything is done; False if the time is over before."""
        if self._thread is None:
            return True
        self._queue.put(None)
        # By the work, not by the thread: one that has nothing to do takes a moment to end, too.
        with self._is_less_undone:
            is_done = self._is_less_undone.wait_for(
                lambda: not self._undone, timeout=max(0.0, limit_seconds)
            )
        if is_done:
            self._thread.join(_LAST_SECONDS)
        return is_done

    def _work(self) -> None:
        while (work := self._queue.get()) is not None:
            try:
                work()
            finally:
                with self._is_less_undone:
                    self._undone -= 1
                    self._is_less_undone.notify_all()


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
