"""Actions against real servers on this machine: mail, webhooks, and AWS as boto3 speaks to it."""

from __future__ import annotations

import base64
import json
import socketserver
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

import pytest

from stoker.bus.stop import StopRequest, read_stop_request
from stoker.contract.job import read_job
from stoker.debugging.actions import ActionRunner, Notice
from stoker.debugging.actions.mail import read_mail_server
from stoker.debugging.actions.runner import WorkerThread
from stoker.debugging.actions.stopping import stop_job
from stoker.debugging.rule import Finding
from stoker.debugging.specs import Action, RuleSpec
from stoker.errors import RuleInvalid

FINDING = Finding(
    message="mean of |gradient/Net_w| is 1e-9, below 1e-07",
    tensor="gradient/Net_w",
    values={"abs_mean": 1e-9, "nan": float("nan")},
    hint="use ReLU",
)
STOP = Action(kind="stop")
EMAIL = Action(kind="email", target="me@example.com")


class Answering(BaseHTTPRequestHandler):
    """Keeps what comes and answers what the test has said."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, dict(self.headers), body))
        status, text = self.server.answers(len(self.server.seen), body)
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


class Mailbox(socketserver.StreamRequestHandler):
    """As much of SMTP as one letter needs."""

    def handle(self):
        self._answer("220 here")
        while line := self.rfile.readline().decode().strip():
            self.server.lines.append(line)
            verb = line.split()[0].upper()
            if verb == "EHLO":
                self._answer("250-here", "250 AUTH PLAIN")
            elif verb == "DATA":
                self._answer("354 go on")
                self.server.letters.append(self._letter())
                self._answer("250 taken")
            elif verb == "AUTH":
                self._answer("535 wrong" if self.server.refuses else "235 welcome")
            elif verb == "QUIT":
                self._answer("221 bye")
                return
            else:
                self._answer("250 fine")

    def _letter(self):
        lines = []
        while (line := self.rfile.readline().decode()) != ".\r\n":
            lines.append(line.rstrip("\r\n"))
        return "\n".join(lines)

    def _answer(self, *lines):
        self.wfile.write("".join(f"{line}\r\n" for line in lines).encode())


@contextmanager
def serving(server):
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def web():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    server.seen, server.answers = [], lambda _n, _body: (200, b"ok")
    server.url = f"http://127.0.0.1:{server.server_port}"
    with serving(server):
        yield server


@pytest.fixture
def mail():
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Mailbox)
    server.lines, server.letters, server.refuses = [], [], False
    server.place = f"127.0.0.1:{server.server_address[1]}"
    with serving(server):
        yield server


@pytest.fixture
def aws(web, monkeypatch):
    """boto3's own requests, answered here."""
    for name, text in {
        "AWS_ENDPOINT_URL": web.url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test-secret",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_CONFIG_FILE": "/nonexistent",
        "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
    }.items():
        monkeypatch.setenv(name, text)
    web.answers = answer_as_aws
    return web


def answer_as_aws(_n, body):
    action = parse_qs(body.decode()).get("Action", ["StopTrainingJob"])[0]
    if action == "StopTrainingJob":
        return 200, b"{}"
    results = {
        "CreateTopic": "<TopicArn>arn:aws:sns:eu-west-1:1:SMDebugRules</TopicArn>",
        "Subscribe": "<SubscriptionArn>pending confirmation</SubscriptionArn>",
        "Publish": "<MessageId>1</MessageId>",
    }
    text = f"<{action}Result>{results[action]}</{action}Result>"
    return 200, f"<{action}Response>{text}</{action}Response>".encode()


def carry_out(opt_ml, *actions, is_dry_run=False, **environ):
    """Runs actions to their end; returns what was said."""
    said = []
    job = read_job(environ={"TRAINING_JOB_NAME": "Job-1", **environ}, root=opt_ml.root)
    runner = ActionRunner(job, say=said.append)
    spec = RuleSpec(name="Vanishing", rule="V", actions=actions, is_dry_run=is_dry_run)
    runner.start(spec, Notice(job=job.name, rule="Vanishing", step=500, finding=FINDING))
    runner.close(limit_seconds=60)
    return said, job


def notifications(opt_ml):
    folder = opt_ml.root / "output/data/stoker/notifications"
    return [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]


def test_a_stop_is_written_for_the_launcher(opt_ml):
    said, job = carry_out(opt_ml, STOP)
    assert read_stop_request(job.paths) == StopRequest(
        by="rule Vanishing", step=500, reason=FINDING.message
    )
    assert said == ["rule Vanishing acts: stop the job (the launcher was asked)"]


def test_a_prefix_of_the_jobs_own_name_stops_it_capitals_included(opt_ml):
    _, job = carry_out(opt_ml, Action(kind="stop", target="Job-"))
    assert read_stop_request(job.paths) is not None


def test_the_first_of_two_stops_counts(opt_ml):
    carry_out(opt_ml, STOP)
    job = read_job(environ={}, root=opt_ml.root)
    second = Notice(job="", rule="Second", step=9, finding=FINDING)
    assert "already, by rule Vanishing" in stop_job(job, second, prefix="", say=print)
    assert read_stop_request(job.paths).by == "rule Vanishing"


def test_a_rule_never_stops_another_job(opt_ml):
    said, job = carry_out(opt_ml, Action(kind="stop", target="job-"))
    assert read_stop_request(job.paths) is None
    assert "for jobs that begin with 'job-', but this is 'Job-1'" in said[0]


def test_a_job_of_several_hosts_is_stopped_by_the_service(opt_ml, aws):
    opt_ml.config("resourceconfig", {"current_host": "algo-1", "hosts": ["algo-1", "algo-2"]})
    _, job = carry_out(opt_ml, STOP)
    ((_, headers, body),) = aws.seen
    assert headers["X-Amz-Target"] == "SageMaker.StopTrainingJob"
    assert json.loads(body) == {"TrainingJobName": "Job-1"}
    assert read_stop_request(job.paths).is_sent_by_platform


def test_a_platform_that_reads_the_request_itself_is_not_asked(opt_ml, aws):
    opt_ml.config("resourceconfig", {"current_host": "algo-1", "hosts": ["algo-1", "algo-2"]})
    said, job = carry_out(opt_ml, STOP, STOKER_PLATFORM_STOPS="1")
    assert aws.seen == []
    assert said == ["rule Vanishing acts: stop the job (the platform was asked)"]
    assert read_stop_request(job.paths).is_sent_by_platform


def test_where_the_service_refuses_this_host_is_stopped_alone_and_it_is_said(opt_ml, aws):
    opt_ml.config("resourceconfig", {"current_host": "algo-1", "hosts": ["algo-1", "algo-2"]})
    aws.answers = lambda _n, _body: (400, b'{"__type": "AccessDenied", "message": "no"}')
    said, job = carry_out(opt_ml, STOP)
    assert "could not be asked to stop all hosts" in said[0]
    assert not read_stop_request(job.paths).is_sent_by_platform


def test_a_webhook_gets_the_finding_as_json(opt_ml, web):
    said, _ = carry_out(opt_ml, Action(kind="webhook", target=f"{web.url}/hook?token=s3cret"))
    ((path, headers, body),) = web.seen
    assert path == "/hook?token=s3cret"
    assert headers["Content-Type"] == "application/json"
    told = json.loads(body, parse_constant=pytest.fail)  # NaN would be no JSON
    assert (told["job"], told["rule"], told["step"]) == ("Job-1", "Vanishing", 500)
    assert told["message"] == FINDING.message
    assert told["values"] == {"abs_mean": 1e-9, "nan": "nan"}
    assert "s3cret" not in "".join(said)
    (kept,) = notifications(opt_ml)
    assert kept["outcome"] == "posted, 200"
    assert "s3cret" not in json.dumps(kept)


def test_a_webhook_that_stumbles_is_asked_once_more(opt_ml, web):
    web.answers = lambda n, _body: (503 if n == 1 else 204, b"")
    carry_out(opt_ml, Action(kind="webhook", target=web.url))
    assert len(web.seen) == 2
    assert notifications(opt_ml)[0]["outcome"] == "posted, 204"


def test_a_webhook_that_refuses_is_a_warning_and_not_asked_again(opt_ml, web):
    web.answers = lambda _n, _body: (404, b"")
    said, _ = carry_out(opt_ml, Action(kind="webhook", target=web.url))
    assert len(web.seen) == 1
    assert "warning: rule Vanishing could not post" in said[0]
    assert "answered 404" in said[0]


def test_a_webhook_without_a_server_is_a_warning(opt_ml):
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Answering)) as server:
        port = server.server_port  # free again below, and no server listens there
    said, _ = carry_out(opt_ml, Action(kind="webhook", target=f"http://127.0.0.1:{port}/"))
    assert "refused" in said[0]


def test_e_mail_goes_to_the_users_own_server_with_the_services_subject(opt_ml, mail):
    url = f"smtp://me:pass%20word1@{mail.place}?from=job@example.com&insecure=1"
    said, _ = carry_out(opt_ml, EMAIL, STOKER_SMTP=url)
    (letter,) = mail.letters
    assert "Subject: SMDebugRule:Vanishing fired" in letter
    assert "From: job@example.com" in letter
    assert "To: me@example.com" in letter
    assert "SMDebugRule:Vanishing fired. mean of |gradient/Net_w| is 1e-9" in letter
    assert "What usually helps: use ReLU" in letter
    login = next(line for line in mail.lines if line.startswith("AUTH"))
    assert base64.b64decode(login.split()[2]) == b"\0me\0pass word1"
    assert "word1" not in "".join(said)
    (kept,) = notifications(opt_ml)
    assert kept["message"] == f"SMDebugRule:Vanishing fired. {FINDING.message}"
    assert kept["outcome"].startswith("sent by")


def test_a_password_is_not_sent_in_the_clear_unasked(opt_ml, mail):
    url = f"smtp://me:word1@{mail.place}?from=job@example.com"
    said, _ = carry_out(opt_ml, EMAIL, STOKER_SMTP=url)
    assert not any("AUTH" in line for line in mail.lines)
    assert "offers no encryption" in said[0]


def test_a_refused_login_is_a_warning_without_the_password(opt_ml, mail):
    mail.refuses = True
    url = f"smtp://me:word1@{mail.place}?from=job@example.com&insecure=1"
    said, _ = carry_out(opt_ml, EMAIL, STOKER_SMTP=url)
    assert "wrong" in said[0]
    assert "word1" not in said[0]


@pytest.mark.parametrize(
    "url", ["mailhost", "http://host", "smtp://", "smtp://host", "smtp://h:port?from=a@b.c"]
)
def test_a_mail_server_that_cannot_be_is_told_without_its_url(url):
    with pytest.raises(RuleInvalid) as told:
        read_mail_server(url)
    assert "smtp://user:password@host" in told.value.fix


def test_without_a_mail_server_sns_sends_as_the_service_does(opt_ml, aws):
    said, _ = carry_out(opt_ml, EMAIL, Action(kind="sms", target="+49170"))
    asked = [{k: v[0] for k, v in parse_qs(body.decode()).items()} for _, _, body in aws.seen]
    topic, subscription, message, _, sms, _ = asked
    assert topic["Name"] == "SMDebugRules"
    assert subscription["Endpoint"] == "me@example.com"
    assert subscription["Protocol"] == "email"
    assert json.loads(subscription["Attributes.entry.1.value"]) == {"email": ["me@example.com"]}
    assert message["Subject"] == "SMDebugRule:Vanishing fired"
    assert message["Message"] == f"SMDebugRule:Vanishing fired. {FINDING.message}"
    assert message["MessageAttributes.entry.1.Name"] == "email"
    assert (sms["Protocol"], json.loads(sms["Attributes.entry.1.value"])) == (
        "sms",
        {"phone_num": ["+49170"]},
    )
    assert "has yet to confirm" in said[0]


def test_without_a_permission_the_message_is_kept_as_a_file(opt_ml, aws):
    aws.answers = lambda _n, _body: (
        403,
        b"<ErrorResponse><Error><Code>AuthorizationError</Code></Error></ErrorResponse>",
    )
    said, _ = carry_out(opt_ml, EMAIL)
    assert "sns:Publish" in said[0]
    (kept,) = notifications(opt_ml)
    assert kept["outcome"].startswith("failed: SNS")


@pytest.mark.parametrize("way", ["of the rule", "of the job"])
def test_a_dry_run_only_says_what_it_would_do(opt_ml, web, way):
    environ = {"STOKER_RULES_DRY_RUN": "1"} if way == "of the job" else {}
    said, job = carry_out(
        opt_ml,
        STOP,
        Action(kind="webhook", target=web.url),
        is_dry_run=way == "of the rule",
        **environ,
    )
    assert read_stop_request(job.paths) is None
    assert not web.seen
    assert said[0] == "rule Vanishing would stop the job (dry run)"
    assert "would post to" in said[1]
    assert notifications(opt_ml)[0]["outcome"] == "dry run"


@pytest.mark.parametrize("off", ["0", "false", "False", "no", "off"])
def test_a_dry_run_that_is_off_is_none(opt_ml, off):
    _, job = carry_out(opt_ml, STOP, STOKER_RULES_DRY_RUN=off)
    assert read_stop_request(job.paths) is not None


def test_the_stop_comes_first_whatever_the_others_take(opt_ml, web):
    said, _ = carry_out(opt_ml, Action(kind="webhook", target=web.url), STOP)
    assert "stop the job" in said[0]


def test_a_stop_waits_for_no_message_of_another_rule(opt_ml, web):
    stopped = threading.Event()
    web.answers = lambda _n, _body: (200 if stopped.wait(60) else 500, b"")
    said = []
    job = read_job(environ={}, root=opt_ml.root)
    runner = ActionRunner(job, say=lambda text: (said.append(text), stopped.set()))
    slow = RuleSpec(name="slow", rule="V", actions=(Action(kind="webhook", target=web.url),))
    stop = RuleSpec(name="stop", rule="V", actions=(STOP,))
    runner.start(slow, Notice(job="", rule="slow", step=1, finding=FINDING))
    runner.start(stop, Notice(job="", rule="stop", step=1, finding=FINDING))
    runner.close(limit_seconds=60)
    assert [line.split()[1] for line in said] == ["stop", "slow"]
    assert read_stop_request(job.paths).by == "rule stop"


def test_a_lane_without_work_is_done_however_short_the_time():
    thread, done = WorkerThread("test"), threading.Event()
    thread.put(done.set)
    assert done.wait(60)
    # Only now has the thread nothing left to do; its last work may still be returning.
    assert thread.close(limit_seconds=5)
    for _ in range(50):
        idle = WorkerThread("idle")
        idle.put(lambda: None)
        while idle._undone:
            pass
        assert idle.close(limit_seconds=0.0)


def test_a_lane_waits_for_the_work_that_is_under_way():
    thread, order = WorkerThread("test"), []
    started = threading.Event()

    def work():
        started.wait(60)
        order.append("done")

    thread.put(work)
    assert not thread.close(limit_seconds=0.0)
    started.set()
    assert thread.close(limit_seconds=60)
    assert order == ["done"]


def test_an_action_that_takes_too_long_is_given_up_and_said(opt_ml, web):
    release = threading.Event()

    def late(_n, _body):
        release.wait(60)
        return 200, b""

    web.answers = late
    said = []
    job = read_job(environ={}, root=opt_ml.root)
    runner = ActionRunner(job, say=said.append)
    spec = RuleSpec(name="V", rule="V", actions=(Action(kind="webhook", target=web.url),))
    runner.start(spec, Notice(job="", rule="V", step=1, finding=FINDING))
    runner.close(limit_seconds=0.01)
    assert "given up" in said[0]
    release.set()
    runner.close(limit_seconds=60)
