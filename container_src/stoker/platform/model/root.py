"""The folder of one platform: where everything is, its keys, its lock, its server.

server.json  server.lock  server.log  credentials.json  sagemaker-config.yaml  aws-config
bin/docker   repositories/<name>
platform.sqlite   s3/<bucket>/<key>   logs/<job>/<host>-<epoch>.jsonl   jobs/<job>/<host>/
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from stoker.errors import HostError
from stoker.machine.failures import UsageRefused

REGION = "us-east-1"
# No real account's number: an ARN with it names nothing in AWS.
ACCOUNT = "000000000000"
DEFAULT_BUCKET = f"sagemaker-{REGION}-{ACCOUNT}"
ROLE_NAME = "stoker-local"
ROLE_ARN = f"arn:aws:iam::{ACCOUNT}:role/{ROLE_NAME}"
"""The role of jobs whose user names none; every role may do everything here."""

NOTEBOOK_NAME = "stoker-local"
"""The notebook instance that a session with the platform runs on, as the SDKs see it."""

SPARE_BYTES = 1 << 20
"""Left free on the disk by uploads: the database and the logs need some, too."""

# The two SDKs look up the account behind the default bucket at a fixed STS address, which no
# variable redirects; a bucket named here spares that call. Telemetry would leave the machine.
_SDK_CONFIG = f"""\
SchemaVersion: '1.0'
SageMaker:
  PythonSDK:
    Modules:
      TelemetryOptOut: true
      Session:
        DefaultS3Bucket: {DEFAULT_BUCKET}
  TrainingJob:
    RoleArn: {ROLE_ARN}
"""


_DOCKER_COMMAND = Path(__file__).with_name("docker.sh")


class RootInUse(UsageRefused):
    """Another server serves this root."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Credentials:
    """The one pair of keys of a root; any user who can read the root may use the platform."""

    access_key: str
    secret_key: str


@dataclass(frozen=True, slots=True)
class Root:
    """The places of one platform."""

    folder: Path
    """An absolute path."""

    @property
    def s3_dir(self) -> Path:
        """Buckets as folders, objects as files."""
        return self.folder / "s3"

    @property
    def jobs_dir(self) -> Path:
        """One folder per job."""
        return self.folder / "jobs"

    @property
    def logs_dir(self) -> Path:
        """One folder of log streams per job."""
        return self.folder / "logs"

    @property
    def database(self) -> Path:
        """The jobs."""
        return self.folder / "platform.sqlite"

    @property
    def metrics_database(self) -> Path:
        """The values of the jobs' metrics."""
        return self.folder / "metrics.sqlite"

    @property
    def runs_database(self) -> Path:
        """Experiments and runs."""
        return self.folder / "runs.sqlite"

    @property
    def server_file(self) -> Path:
        """Who serves this root; there only while a server is ready."""
        return self.folder / "server.json"

    @property
    def lock_file(self) -> Path:
        """Held by the one server."""
        return self.folder / "server.lock"

    @property
    def server_log(self) -> Path:
        """What a detached server says."""
        return self.folder / "server.log"

    @property
    def credentials_file(self) -> Path:
        """The keys, for the owner's eyes only."""
        return self.folder / "credentials.json"

    @property
    def sdk_config_file(self) -> Path:
        """For SAGEMAKER_USER_CONFIG_OVERRIDE of both SDKs."""
        return self.folder / "sagemaker-config.yaml"

    @property
    def aws_config_file(self) -> Path:
        """For AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE: region and keys of `default`."""
        return self.folder / "aws-config"

    @property
    def bin_dir(self) -> Path:
        """For PATH: `docker`, which keeps images of the platform's registry on this machine."""
        return self.folder / "bin"

    @property
    def repositories_dir(self) -> Path:
        """One file for each repository of ECR."""
        return self.folder / "repositories"

    @property
    def notebook_metadata_file(self) -> Path:
        """What both SDKs read first when they look for the execution role."""
        return self.folder / "notebook-metadata.json"

    @property
    def processes_dir(self) -> Path:
        """One folder for each run of the process engine."""
        return self.folder / "processes"

    @property
    def warm_pools_dir(self) -> Path:
        """One folder for each warm pool, named after the job that began it."""
        return self.folder / "warm"

    def warm_pool_dir(self, pool: str) -> Path:
        """Everything of one warm pool."""
        return self.warm_pools_dir / pool

    @property
    def kept(self) -> Path:
        """One folder for each job that left something which could not be uploaded."""
        return self.folder / "kept"

    def kept_dir(self, job: str) -> Path:
        """What a job left that could not be uploaded."""
        return self.kept / job

    @property
    def run_files_dir(self) -> Path:
        """One file for each job that ended."""
        return self.folder / "runs"

    def run_file(self, job: str) -> Path:
        """What a job's container wrote about its run."""
        return self.run_files_dir / f"{job}.json"

    def job_dir(self, job: str) -> Path:
        """Everything of one job."""
        return self.jobs_dir / job

    def host_dir(self, job: str, host: str) -> Path:
        """What becomes /opt/ml of one host."""
        return self.jobs_dir / job / host


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerInfo:
    """Who serves a root."""

    pid: int
    endpoint: str
    """Where the API and S3 answer, for AWS_ENDPOINT_URL."""

    engine: str
    reason: str
    """Why this engine."""

    s3_port: int
    """The S3 server's own port, for containers."""

    started: float
    """Seconds since the epoch."""

    container_endpoint: str = ""
    """Where containers reach S3 at the same port; empty if they share this machine's loopback."""


def open_root(folder: Path) -> Root:
    """Make the folder ready for use; what is there already is kept.

    Raises:
        HostError: the folder cannot be made or written.
    """
    root = Root(folder.expanduser().resolve())
    try:
        root.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _make_private(root)
        (root.s3_dir / DEFAULT_BUCKET).mkdir(exist_ok=True)
        _write_credentials_once(root)
        _write_whole(root.sdk_config_file, _SDK_CONFIG)
        _write_whole(root.aws_config_file, _make_aws_config(read_credentials(root)), mode=0o600)
        _write_whole(root.bin_dir / "docker", _DOCKER_COMMAND.read_text(), mode=0o755)
    except OSError as error:
        raise HostError(
            f"the platform's folder {root.folder} cannot be used: {error}",
            fix="pass another one with --root",
        ) from error
    return root


def read_credentials(root: Root) -> Credentials:
    """The keys of a root.

    Raises:
        HostError: the file is missing or damaged.
    """
    try:
        keys = json.loads(root.credentials_file.read_text())
        return Credentials(access_key=keys["access_key"], secret_key=keys["secret_key"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HostError(
            f"{root.credentials_file} does not hold the platform's keys: {error!r}",
            fix="remove the file and start the server again: it makes new keys",
        ) from error


class RootLock:
    """Held by the one server of a root; the kernel releases it when the process dies."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Let another server take the root."""
        os.close(self._descriptor)


def take_lock(root: Root) -> RootLock:
    """Become the one server of a root.

    Raises:
        RootInUse: there is one; the text names its process and address.
    """
    descriptor = os.open(root.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        # Written by the holder, below; a lock itself does not name its process.
        holder = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        running = read_server_info(root)
        address = running.endpoint if running else "not ready yet"
        raise RootInUse(
            f"{root.folder} is served already: process {holder}, address {address}",
            fix="use that server, end it with `stoker local down`, or pass another --root",
        ) from error
    # Kept open, as closing it would release the lock.
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return RootLock(descriptor)


def read_server_info(root: Root) -> ServerInfo | None:
    """Who says it serves this root; after a kill -9 the file may outlive the server."""
    try:
        return ServerInfo(**json.loads(root.server_file.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def write_server_info(root: Root, server: ServerInfo) -> None:
    """Say that the server is ready; shells that point to it find its role from now on."""
    _write_whole(root.notebook_metadata_file, json.dumps({"ResourceName": NOTEBOOK_NAME}))
    _write_whole(root.server_file, json.dumps(asdict(server), indent=1))


def remove_server_info(root: Root) -> None:
    """Say that no server is ready, and that there is no role to be found."""
    root.notebook_metadata_file.unlink(missing_ok=True)
    root.server_file.unlink(missing_ok=True)


def _make_private(root: Root) -> None:
    """A folder that was there before may be open to others, and is not ours to close."""
    for part in (
        *(root.s3_dir, root.jobs_dir, root.logs_dir),
        *(root.processes_dir, root.kept, root.warm_pools_dir, root.run_files_dir),
        *(root.bin_dir, root.repositories_dir),
    ):
        part.mkdir(exist_ok=True)
        part.chmod(0o700)
    for file in (root.database, root.metrics_database, root.runs_database, root.server_log):
        # Before sqlite makes them: it would take the mode from the umask.
        file.touch()
        file.chmod(0o600)


def _write_credentials_once(root: Root) -> None:
    if root.credentials_file.exists():
        return
    import secrets  # once for each root; every command would pay for it

    keys = {"access_key": f"STOKER{secrets.token_hex(7).upper()}"}
    keys["secret_key"] = secrets.token_urlsafe(30)
    part = root.credentials_file.with_name(f"credentials.{secrets.token_hex(4)}.tmp")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(json.dumps(keys))
    # Of two servers that start at once only one makes the keys: a link never replaces a file.
    with suppress(FileExistsError):
        root.credentials_file.hardlink_to(part)
    part.unlink()


def _make_aws_config(keys: Credentials) -> str:
    """`aws configure get region` reads no variable, and a session of a profile no keys of one."""
    return (
        f"[default]\nregion = {REGION}\n"
        f"aws_access_key_id = {keys.access_key}\naws_secret_access_key = {keys.secret_key}\n"
    )


def _write_whole(file: Path, text: str, *, mode: int = 0o644) -> None:
    part = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    part.touch(mode)
    part.write_text(text)
    part.chmod(mode)
    part.replace(file)
