"""Group C, around the container: the other hosts, the network, the job before in a warm pool."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

from stoker.conformance.check import Failed, NotApplicable, check, require
from stoker.conformance.lab import Container, Lab, Ran
from stoker.conformance.opt_ml import make_resources
from stoker.conformance.probe import TELL, mark, marks, read_told
from stoker.conformance.script import Script

_HOSTS = ["algo-1", "algo-2"]
_WARM_POOL = "/opt/ml/sagemaker/warmpoolcache"

# Each waits for the other: a container that has ended is unknown to DNS.
_PEER = Script(
    sh="peer",
    python="""
import json, os, sys, time
here = os.environ.get("SM_CURRENT_HOST", "")
print("PROBE current=" + here, flush=True)
print("PROBE hosts=" + os.environ.get("SM_HOSTS", ""), flush=True)
print("PROBE leader=" + os.environ.get("SM_MASTER_ADDR", ""), flush=True)
with open("/opt/ml/input/config/resourceconfig.json") as file:
    config = json.load(file)
open("/shared/" + config["current_host"], "w").close()
deadline = time.monotonic() + 60
while len(os.listdir("/shared")) < 2 and time.monotonic() < deadline:
    time.sleep(0.1)
sys.exit(3 if config["current_host"] == "algo-2" else 0)
""",
)

_NETWORK = {
    "NCCL_DEBUG": "INFO",
    "NCCL_IB_DISABLE": "0",
    "NCCL_PROTO": "LL",
    "NCCL_SOCKET_IFNAME": "lo",
}
_ENVIRONMENT = Script(
    sh="network",
    python=TELL
    + """
devices = os.listdir("/sys/class/infiniband") if os.path.isdir("/sys/class/infiniband") else []
tell(environ=dict(os.environ), devices=devices)
""",
)

_WHEEL = "stoker_probe-1.0-py3-none-any.whl"
_INDEX = """
import http.server, os
WHEEL = "{wheel}"

class Index(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path.endswith(WHEEL):
            print("PROBE served=" + self.path, flush=True)
            with open(os.path.join("/opt/ml/model", WHEEL), "rb") as file:
                self.answer(file.read(), "application/octet-stream", "max-age=365000000")
        else:
            page = f'<a href="/files/{{WHEEL}}">{{WHEEL}}</a>'
            self.answer(page.encode(), "text/html", "max-age=600")

    def answer(self, body, kind, cache):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", cache + ", public")
        self.send_header("ETag", '"' + str(len(body)) + '"')
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass

server = http.server.ThreadingHTTPServer(("", 8080), Index)
print("PROBE index=ready", flush=True)
server.serve_forever()
"""
_IMPORTER = """
import stoker_probe
print("PROBE imported=" + stoker_probe.__name__, flush=True)
"""


@check(
    33,
    "Each host of a cluster knows its place",
    group="running",
    contract="Every host runs the image; resourceconfig.json says which one it is. One that "
    "ends with another code than 0 fails the job.",
    source="guide (resourceconfig.json), toolkit (SM_HOSTS, SM_CURRENT_HOST)",
    how="two containers on one network as algo-1 and algo-2; the script on algo-2 exits with 3",
    fix="read resourceconfig.json on each host, and end with the script's own failure",
)
def hosts_know_their_place(lab: Lab) -> str:
    network = lab.network()
    shared = lab.folder / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    started = [_start_host(lab, host, network, shared) for host in _HOSTS]
    first, second = [container.wait() for container in started]
    for host, ran in zip(_HOSTS, (first, second), strict=True):
        _require_place(host, ran)
    require(first.code == 0, f"algo-1 ended with {first.code}: {first.tail()}")
    require(second.code != 0, "the script on algo-2 failed, but its container ended with 0")
    return f"both hosts know hosts and name; exit codes are {first.code} and {second.code}"


def _start_host(lab: Lab, host: str, network: str, shared: Path) -> Container:
    opt_ml = lab.job(_PEER, resources=make_resources(host, _HOSTS))
    place = ("--network", network, "--hostname", host, "--network-alias", host)
    return lab.start(opt_ml, *place, "--volume", f"{shared}:/shared")


def _require_place(host: str, ran: Ran) -> None:
    current = mark(ran.output, "current")
    require(bool(marks(ran.output, "current")), f"no script ran on {host}: {ran.tail()}")
    require(current == host, f"on {host} SM_CURRENT_HOST is {current!r}")
    hosts = mark(ran.output, "hosts")
    require(_parsed(hosts) == _HOSTS, f"on {host} SM_HOSTS is {hosts!r}")
    leader = mark(ran.output, "leader")
    # SM_MASTER_ADDR is set by SDK v3 and not by the toolkit: it may be missing, not differ.
    require(leader in ("", _HOSTS[0]), f"on {host} SM_MASTER_ADDR is {leader!r}")


@check(
    34,
    "The user's NCCL settings win, EFA only with its device",
    group="running",
    contract="Environment entries reach the script unchanged; EFA is used where there is one.",
    source="API (Environment); seen: toolkits overwrite NCCL_* and set FI_PROVIDER by name",
    how=f"a job of two hosts with {', '.join(_NETWORK)} set; the script's environment is read",
    fix="set NCCL_* and FI_* only where the user has not, and only if the device is there",
)
def network_settings_are_kept(lab: Lab) -> str:
    resources = make_resources("algo-1", _HOSTS)
    # A type with EFA: launchers that decide by a list of names set FI_PROVIDER here, without a
    # device.
    resources["current_instance_type"] = "ml.p4d.24xlarge"
    # The other host's name resolves, so that no launcher waits for it; the script does not use it.
    peer = ("--add-host", "algo-2:127.0.0.1")
    job = lab.job(_ENVIRONMENT, resources=resources)
    found = read_told(lab.start(job, *peer, environ=_NETWORK), job)
    seen = found["environ"]
    changed = {name: seen.get(name) for name, text in _NETWORK.items() if seen.get(name) != text}
    require(not changed, f"the user's settings were changed: {changed}")
    if found["devices"]:
        return "NCCL_* are unchanged; there is an EFA or InfiniBand device, FI_* may be set"
    require("FI_PROVIDER" not in seen, f"no device, but FI_PROVIDER={seen.get('FI_PROVIDER')}")
    return "NCCL_* are unchanged, and without a device there is no FI_PROVIDER"


@check(
    36,
    "A warm pool does not download packages twice",
    group="running",
    contract=f"{_WARM_POOL} outlives the job; the next job of the pool finds it again.",
    source="guide (warm pools: the folder and its variable); our choice: pip's cache is there",
    how="two jobs with the same requirements.txt and the same folder mounted there; a package "
    "index on a private network counts the downloads",
    fix=f"let pip keep its cache in {_WARM_POOL} when that folder is there",
)
def warm_pool_is_used(lab: Lab) -> str:
    lab.require_python("pip is a Python program")
    network = lab.network()
    index = _start_index(lab, network)
    # Not made here: the engine makes it, as root, which pip asks of a cache that root uses.
    cache = lab.folder / "warm"
    for attempt in ("first", "second"):
        ran = _run_in_pool(lab, network, cache)
        require(
            bool(mark(ran.output, "imported")),
            f"the {attempt} job did not get its package; exit code {ran.code}: {ran.tail()}",
        )
    # Counted by the index: what pip prints about its cache is not part of any contract.
    served = len(marks(index.logs(), "served"))
    require(served == 1, f"the same package was downloaded {served} times by two jobs")
    return "two jobs, one download"


def _start_index(lab: Lab, network: str) -> Container:
    """The image's own Python serves: a server on this machine may be behind a firewall."""
    opt_ml = lab.job()
    opt_ml.write("code/index.py", _INDEX.format(wheel=_WHEEL))
    (opt_ml.root / "model" / _WHEEL).write_bytes(_make_wheel())
    place = ("--network", network, "--network-alias", "index", "--entrypoint", "python3")
    try:
        index = lab.start(opt_ml, *place, command=("/opt/ml/code/index.py",))
        index.wait_for("PROBE index=ready", within_seconds=20)
    except Failed as reason:
        raise NotApplicable(f"no package index could be started to try it: {reason}") from None
    return index


def _run_in_pool(lab: Lab, network: str, cache: Path) -> Ran:
    opt_ml = lab.job(_IMPORTER)
    opt_ml.write("code/requirements.txt", "stoker-probe==1.0\n")
    place = ("--network", network, "--hostname", "algo-1", "--network-alias", "algo-1")
    environ = {
        "PIP_INDEX_URL": "http://index:8080/simple/",
        "PIP_TRUSTED_HOST": "index",
        "SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY": _WARM_POOL,
    }
    return lab.run(opt_ml, *place, "--volume", f"{cache}:{_WARM_POOL}", environ=environ)


def _make_wheel() -> bytes:
    folder = "stoker_probe-1.0.dist-info"
    files = {
        "stoker_probe.py": "",
        f"{folder}/METADATA": "Metadata-Version: 2.1\nName: stoker-probe\nVersion: 1.0\n",
        f"{folder}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{folder}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{folder}/RECORD"))
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return made.getvalue()


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None
