"""What the launcher does not do: nothing noisy, nothing in the user's way, nothing left behind."""

import http.server
import json
import os
import subprocess
import sys
import threading

import stoker.runtime.__main__ as launcher


def test_a_healthy_job_gets_a_handful_of_lines(opt_ml):
    opt_ml.script("print('one line')", lr="0.1")
    own = [x for x in opt_ml.run().stderr.splitlines() if x.startswith("[stoker]")]
    assert len(own) == 4  # job, code, command, outcome


def test_a_job_that_ends_well_waits_for_no_module_of_failures(opt_ml):
    opt_ml.script("")
    done = subprocess.run(
        [sys.executable, "-IS", "-X", "importtime", launcher.__file__],
        env={**os.environ, "STOKER_ROOT": str(opt_ml.root)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    loaded = {line.rpartition("|")[2].strip() for line in lines}
    assert "stoker.runtime.run_file" in loaded
    assert not loaded & {"re", "enum", "json", "platform", "stoker.runtime.diagnosis"}


def test_no_other_program_is_needed_at_the_start(opt_ml):
    opt_ml.script("print('no PATH at all')")
    assert opt_ml.run(PATH="/nonexistent").stdout == "no PATH at all\n"


def test_the_log_level_may_be_a_name_or_a_number(opt_ml):
    opt_ml.script("import os; print(os.environ['SM_LOG_LEVEL'])")
    for given, seen in (("INFO", "20"), ("warning", "30"), ("40", "40"), ("nonsense", "20")):
        assert opt_ml.run(SAGEMAKER_CONTAINER_LOG_LEVEL=given).stdout == f"{seen}\n"


def test_the_log_level_hushes_the_launcher_not_the_script(opt_ml):
    opt_ml.script("import sys; print('mine', file=sys.stderr)")
    assert opt_ml.run(SAGEMAKER_CONTAINER_LOG_LEVEL="ERROR").stderr == "mine\n"


def test_pythonpath_keeps_what_the_user_set_and_gains_the_source_directory(opt_ml):
    opt_ml.script("import os; print(os.environ['PYTHONPATH'])")
    code = opt_ml.root / "code"
    assert opt_ml.run(PYTHONPATH="/mine").stdout == f"{code}:/mine\n"


def test_the_users_files_keep_their_modes(opt_ml):
    script = opt_ml.script("echo ran\n", name="run.sh")
    script.chmod(0o640)
    assert opt_ml.run().stdout == "ran\n"
    assert script.stat().st_mode & 0o777 == 0o640


def test_environment_entries_arrive_unchanged(opt_ml):
    opt_ml.script("import json, os; print(json.dumps([os.environ['ODD'], os.environ['EMPTY']]))")
    odd = "a=b\nsecond line\ttab 'quoted' \"twice\" é"
    assert json.loads(opt_ml.run(ODD=odd, EMPTY="").stdout) == [odd, ""]


def test_folders_the_script_may_count_on_are_there(opt_ml):
    opt_ml.script("""
        import os
        for name in ("MODEL_DIR", "OUTPUT_DATA_DIR", "CHECKPOINT_DIR", "TENSORBOARD_DIR"):
            print(os.path.isdir(os.environ["SM_" + name]))
    """)
    assert opt_ml.run().stdout == "True\n" * 4
    assert not (opt_ml.root / "output/intermediate").exists()
    assert os.listdir(opt_ml.root / "model") == []


def test_the_synced_folders_follow_their_config_files(opt_ml, tmp_path):
    opt_ml.script(
        "import os; print(os.environ['SM_CHECKPOINT_DIR'], os.environ['SM_TENSORBOARD_DIR'])"
    )
    opt_ml.config("checkpointconfig", {"LocalPath": str(tmp_path / "ckpt")})
    opt_ml.config("tensorboardoutputconfig", {"LocalPath": str(tmp_path / "tb")})
    assert opt_ml.run().stdout == f"{tmp_path}/ckpt {tmp_path}/tb\n"


def test_nothing_stays_in_the_temporary_folder(opt_ml, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    opt_ml.script("raise ValueError('x')")
    opt_ml.run(TMPDIR=str(scratch))
    assert os.listdir(scratch) == []


def test_a_worker_without_the_launcher_is_an_ordinary_python(tmp_path):
    code = (
        "import sys; "
        "print(sys.excepthook is sys.__excepthook__, 'stoker.worker.autoload' in sys.modules)"
    )
    environ = {k: v for k, v in os.environ.items() if not k.startswith("STOKER")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True
    )
    assert done.stdout == "True False\n"


def test_a_worker_is_woken_once_however_often_its_pth_file_is_read():
    """Python reads those of some virtual environments twice: two hooks would save every step."""
    code = (
        "import sys, stoker.worker.autoload as autoload; autoload.wake(); "
        "before = list(sys.meta_path); "
        "autoload.wake(); print(sys.meta_path == before, sys.excepthook is sys.__excepthook__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "True False\n", done.stderr


class _CodeArtifact(http.server.BaseHTTPRequestHandler):
    """The two calls of CodeArtifact that a token needs, and an index that refuses everybody."""

    def do_POST(self):
        self._answer({"authorizationToken": "very-secret-token", "expiration": 0})

    def do_GET(self):
        if "/simple" in self.path:
            type(self).logins.append(self.headers.get("Authorization", ""))
            self.send_error(403)
            return
        host, port = self.server.server_address
        self._answer({"repositoryEndpoint": f"http://{host}:{port}/pypi/repo/"})

    logins: list[str] = []  # noqa: RUF012 - one server, one list

    def _answer(self, content):
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_a_codeartifact_token_reaches_pip_and_no_log(opt_ml):
    opt_ml.script("print('never')")
    (opt_ml.root / "code/requirements.txt").write_text("private-package\n")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _CodeArtifact) as server:
        threading.Thread(target=server.serve_forever).start()
        endpoint = f"http://127.0.0.1:{server.server_port}"
        result = opt_ml.run(
            CA_REPOSITORY_ARN="arn:aws:codeartifact:us-east-1:111111111111:repository/dom/repo",
            AWS_ENDPOINT_URL_CODEARTIFACT=endpoint,
            AWS_ACCESS_KEY_ID="local-key",
            AWS_SECRET_ACCESS_KEY="local-secret",
            PIP_RETRIES="0",
            PIP_CONFIG_FILE=os.devnull,
            PIP_EXTRA_INDEX_URL="",
            PIP_FIND_LINKS="",
        )
        server.shutdown()
    assert result.returncode == 69
    assert any(login.startswith("Basic ") for login in _CodeArtifact.logins)
    for text in (result.stdout, result.stderr, opt_ml.failure):
        assert "very-secret-token" not in text
