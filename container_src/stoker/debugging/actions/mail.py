"""E-mail by a server of the user's own: smtp://user:password@host:port?from=me@example.com."""

from __future__ import annotations

import smtplib
import ssl
from dataclasses import dataclass, field
from email.message import EmailMessage
from urllib.parse import parse_qs, unquote, urlsplit

from stoker.debugging.actions.notice import Notice
from stoker.errors import ActionFailed, RuleInvalid

TRY_SECONDS = 10.0
_FORM = "STOKER_SMTP=smtp://user:password@host:587?from=me@example.com, or smtps://…"


@dataclass(frozen=True, kw_only=True, slots=True)
class MailServer:
    """Where e-mail is handed in."""

    host: str
    port: int
    sender: str
    user: str = ""
    password: str = field(default="", repr=False)
    is_tls: bool = False
    """Encrypted from the first byte (smtps); otherwise as soon as the server offers it."""
    is_plain_login_allowed: bool = False
    """`insecure=1`: the password may go over a connection that is not encrypted."""


def read_mail_server(url: str) -> MailServer:
    """Reads STOKER_SMTP.

    Raises:
        RuleInvalid: no such URL. The text never repeats it: it holds a password.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise RuleInvalid("STOKER_SMTP is not a URL", fix=_FORM) from None
    query = parse_qs(parts.query)
    if parts.scheme not in ("smtp", "smtps") or not parts.hostname:
        raise RuleInvalid("STOKER_SMTP names no mail server", fix=_FORM)
    user = unquote(parts.username or "")
    sender = query.get("from", [user if "@" in user else ""])[0]
    if not sender:
        raise RuleInvalid("STOKER_SMTP does not say from whom", fix=_FORM)
    is_tls = parts.scheme == "smtps"
    return MailServer(
        host=parts.hostname,
        port=port or (465 if is_tls else 587),
        sender=sender,
        user=user,
        password=unquote(parts.password or ""),
        is_tls=is_tls,
        is_plain_login_allowed=query.get("insecure") == ["1"],
    )


def send(notice: Notice, address: str, server: MailServer) -> str:
    """Hands in one e-mail.

    Raises:
        ActionFailed: the server cannot be reached, or refuses.
    """
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = notice.subject, server.sender, address
    message.set_content(notice.letter)
    try:
        with _connect(server) as connection:
            connection.send_message(message)
    except (OSError, smtplib.SMTPException) as error:
        raise ActionFailed(f"{server.host}:{server.port}: {error}", fix=_FORM) from None
    return f"sent by {server.host}"


def _connect(server: MailServer) -> smtplib.SMTP:
    context = ssl.create_default_context()
    if server.is_tls:
        connection: smtplib.SMTP = smtplib.SMTP_SSL(
            server.host, server.port, timeout=TRY_SECONDS, context=context
        )
    else:
        connection = smtplib.SMTP(server.host, server.port, timeout=TRY_SECONDS)
    try:
        connection.ehlo_or_helo_if_needed()
        is_safe = server.is_tls
        if not is_safe and connection.has_extn("starttls"):
            connection.starttls(context=context)
            is_safe = True
        if server.user:
            _log_in(connection, server, is_safe=is_safe)
    except BaseException:
        connection.close()
        raise
    return connection


def _log_in(connection: smtplib.SMTP, server: MailServer, *, is_safe: bool) -> None:
    if not is_safe and not server.is_plain_login_allowed:
        raise ActionFailed(
            f"{server.host} offers no encryption, and the password is not sent in the clear",
            fix="use smtps://, or add &insecure=1 for a server on this very machine",
        )
    connection.login(server.user, server.password)
