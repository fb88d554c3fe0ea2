"""Installing what the code needs: constrained, cached, and never telling a secret."""

import http.server
import os
import subprocess
import sys
import threading
import venv
import zipfile
from pathlib import Path

import pytest

import stoker
from stoker.runtime.pip_output import PipOutput, find_progress_bar

pytestmark = pytest.mark.functional

PACKAGE = Path(stoker.__file__).parents[1]


def make_wheel(folder: Path, name: str, version: str) -> Path:
    """A minimal wheel with one module that knows its version."""
    info = f"{name}-{version}.dist-info"
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{name}.py", f"VERSION = {version!r}\n")
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return wheel


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """An interpreter of its own, as the image has: what is installed stays in this module."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=True)
    site = next(folder.glob("lib/python3*/site-packages"))
    (site / "stoker.pth").write_text(f"{PACKAGE}\n")
    (site / "stoker_autoload.pth").write_bytes((PACKAGE / "stoker_autoload.pth").read_bytes())
    return folder / "bin/python"


def _run(opt_ml, python, **environ):
    main = Path(stoker.__file__).with_name("runtime") / "__main__.py"
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("SM_", "PIP_"))}
    return subprocess.run(
        [python, "-IS", main],
        env={**clean, "STOKER_ROOT": str(opt_ml.root), "PIP_CONFIG_FILE": os.devnull, **environ},
        capture_output=True,
        text=True,
        timeout=240,
    )


def test_requirements_are_installed_before_the_first_line(opt_ml, python, tmp_path):
    make_wheel(tmp_path, "fuel", "1.10")
    opt_ml.script("import fuel; print(fuel.VERSION)")
    (opt_ml.root / "code/requirements.txt").write_text("fuel\n")
    result = _run(opt_ml, python, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path))
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "1.10"


def test_a_long_download_says_every_ten_seconds_how_far_it_is():
    now = 0.0
    output = PipOutput(lambda text: text.replace("secret", "***"), clock=lambda: now)
    shown = output("Downloading a.whl (200 MB) from secret\nProgress 0 of 200000000\n")
    for second in range(1, 21):
        now = float(second)
        shown += output(f"Progress {second * 10_000_000} of 200000000\n")
    shown += output("Progress 0 of 5\nProgress 5 of 5\nSuccessfully installed a\n")
    assert shown.splitlines() == [
        "Downloading a.whl (200 MB) from ***",
        "[stoker] pip: 100 MB of 200 MB, 10 MB/s, 10 s left",
        "[stoker] pip: 200 MB of 200 MB, 10 MB/s",
        "Successfully installed a",
    ]


def test_requirements_are_installed_for_a_shell_script_too(opt_ml, python, tmp_path):
    make_wheel(tmp_path, "grate", "2.0")
    opt_ml.script(f'{python} -c "import grate; print(grate.VERSION)"\n', name="run.sh")
    (opt_ml.root / "code/requirements.txt").write_text("grate\n")
    result = _run(opt_ml, python, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path))
    assert result.stdout.splitlines()[-1] == "2.0", result.stderr


def test_relative_wheels_of_the_source_directory_work(opt_ml, python):
    (opt_ml.root / "code/wheels").mkdir()
    wheel = make_wheel(opt_ml.root / "code/wheels", "coal", "3.1")
    opt_ml.script("import coal; print(coal.VERSION)")
    (opt_ml.root / "code/requirements.txt").write_text(f"./wheels/{wheel.name}\n")
    result = _run(opt_ml, python, PIP_NO_INDEX="1")
    assert result.stdout.splitlines()[-1] == "3.1", result.stderr


def test_a_requirement_that_cannot_be_had_is_named_with_its_fix(opt_ml, python):
    opt_ml.script("print('never')")
    (opt_ml.root / "code/requirements.txt").write_text("no-such-package-of-ours==1\n")
    result = _run(opt_ml, python, PIP_NO_INDEX="1")
    assert result.returncode == 69
    assert "never" not in result.stdout
    assert "no-such-package-of-ours" in opt_ml.failure
    assert "fix: " in opt_ml.failure


def test_the_login_of_a_private_index_is_never_told(opt_ml, python):
    opt_ml.script("print('never')")
    (opt_ml.root / "code/requirements.txt").write_text(
        "--extra-index-url http://user:tok3n-in-file@127.0.0.1:9/simple\nsecret-package\n"
    )
    result = _run(
        opt_ml,
        python,
        PIP_INDEX_URL="http://aws:tok3n-in-env@127.0.0.1:9/simple",
        PIP_RETRIES="0",
    )
    assert result.returncode == 69
    for text in (result.stdout, result.stderr, opt_ml.failure):
        assert "tok3n" not in text


@pytest.mark.parametrize("name", ["token", "private_token", "X-Amz-Signature", "sig"])
def test_the_token_in_the_query_of_a_private_address_is_never_told(opt_ml, python, name):
    opt_ml.script("print('never')")
    (opt_ml.root / "code/requirements.txt").write_text(
        f"pkg @ http://127.0.0.1:9/pkg-1-py3-none-any.whl?{name}=tok3n-in-file\n"
    )
    result = _run(opt_ml, python, PIP_RETRIES="1", PIP_TIMEOUT="1")
    assert result.returncode == 69
    assert "Retrying" in result.stderr  # pip quotes the address without its host there
    for text in (result.stdout, result.stderr, opt_ml.failure):
        assert "tok3n" not in text


def test_a_bad_codeartifact_arn_is_refused_with_its_form(opt_ml, python):
    opt_ml.script("print('never')")
    (opt_ml.root / "code/requirements.txt").write_text("anything\n")
    _install_boto3_link(python)
    result = _run(opt_ml, python, CA_REPOSITORY_ARN="arn:aws:nonsense")
    assert result.returncode == 78
    assert "arn:aws:codeartifact:REGION:ACCOUNT:repository/DOMAIN/REPOSITORY" in opt_ml.failure


class _Index(http.server.BaseHTTPRequestHandler):
    """A package index with one wheel, sent with the caching header real ones send."""

    wheel: Path
    downloads = 0

    def do_GET(self):
        if self.path.endswith(".whl"):
            type(self).downloads += 1
            self._send(self.wheel.read_bytes(), "max-age=365000000, immutable, public")
        else:
            name = self.wheel.name
            self._send(f'<a href="/files/{name}">{name}</a>'.encode(), "no-cache")

    def _send(self, body, caching):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", caching)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_the_progress_that_pip_prints_for_programs_is_not_in_the_log(opt_ml, tmp_path):
    # The tests' own Python: the pip of a fresh environment may be too old to print it.
    if find_progress_bar() != "raw":
        pytest.skip("this pip has no raw progress")
    _Index.wheel = make_wheel(tmp_path, "smoke", "1.0")
    opt_ml.script("print('trained')")
    (opt_ml.root / "code/requirements.txt").write_text("smoke\n")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Index) as server:
        threading.Thread(target=server.serve_forever).start()
        index = f"http://127.0.0.1:{server.server_port}/simple"
        place = {"PIP_TARGET": str(tmp_path / "target"), "PIP_TRUSTED_HOST": "127.0.0.1"}
        result = _run(opt_ml, sys.executable, PIP_INDEX_URL=index, **place)
        server.shutdown()
    assert result.returncode == 0, result.stderr
    assert "Downloading " in result.stdout
    assert "Progress " not in result.stdout
    assert (tmp_path / "target/smoke.py").exists()


def test_a_second_job_of_a_warm_pool_installs_from_its_cache(opt_ml, python, tmp_path):
    _Index.wheel, _Index.downloads = make_wheel(tmp_path, "ember", "1.0"), 0
    opt_ml.script("import ember; print(ember.VERSION)")
    (opt_ml.root / "sagemaker/warmpoolcache").mkdir(parents=True)
    (opt_ml.root / "code/requirements.txt").write_text("ember\n")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Index) as server:
        threading.Thread(target=server.serve_forever).start()
        index = f"http://127.0.0.1:{server.server_port}/simple"
        for _ in range(2):
            result = _run(opt_ml, python, PIP_INDEX_URL=index, PIP_TRUSTED_HOST="127.0.0.1")
            assert result.stdout.splitlines()[-1] == "1.0", result.stderr
            subprocess.run([python, "-m", "pip", "uninstall", "-qy", "ember"], check=True)
        server.shutdown()
    assert _Index.downloads == 1


def test_a_project_that_only_configures_tools_is_not_installed(opt_ml, python):
    opt_ml.script("print('ran')")
    (opt_ml.root / "code/pyproject.toml").write_text("[tool.ruff]\nline-length = 99\n")
    result = _run(opt_ml, python, PIP_NO_INDEX="1")
    assert result.stdout == "ran\n"
    assert "install" not in result.stderr


def test_a_users_own_module_cannot_break_the_launcher(opt_ml, python):
    opt_ml.script("print('ran')")
    for name in ("json", "signal", "pathlib", "select"):
        (opt_ml.root / f"code/{name}.py").write_text("raise RuntimeError('shadowed')")
    result = _run(opt_ml, python, PYTHONPATH=str(opt_ml.root / "code"))
    assert result.stdout == "ran\n", result.stderr


def _install_boto3_link(python):
    site = next(python.parents[1].glob("lib/python3*/site-packages"))
    own = Path(sys.modules["pytest"].__file__).parents[1]
    (site / "dev.pth").write_text(f"{own}\n")
