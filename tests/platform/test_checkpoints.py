"""`stoker.checkpoints` on the platform: whatever takes a job away, it ends as if nothing had.

The script stands still at chosen steps, and the server by STOKER_HOLD before it interrupts, so no
moment depends on who is quicker. The steps a script says it has done, the repeated ones as well,
must be those of a job that was left in peace: losses and final weights to the last bit.
"""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from stoker.runtime.processes import descendants
from tests.platform.local_server import DEFAULT_BUCKET, LocalServer, statuses, wait_until

SCRIPT = Path(__file__).with_name("spot_training.py")
RUN = ["Starting", "Downloading", "Training", "Interrupted"]
LAST = ["Starting", "Downloading", "Training", "Uploading", "Completed"]
TWO_HOSTS = {
    "ResourceConfig": {"InstanceCount": 2},
    "HyperParameters": {"sagemaker_torch_distributed_enabled": "true"},
}


Result = tuple[bytes, list[list[str]]]
"""The final weights, and the losses of each host."""


class Spot:
    """A server whose spot jobs are interrupted when the test says so."""

    def __init__(self, server: LocalServer, folder: Path, wholes: dict[str, Result]) -> None:
        self.server = server
        self._folder = folder
        self._wholes = wholes
        self._held: list[str] = []

    def start(self, *jobs: str, **points: str) -> None:
        """Starts the server.

        Args:
            jobs: those that are interrupted by `interrupt`.
            points: job → where it stands still for good.
        """
        for job in jobs:
            # Before it is told, and before it begins again: what is held next is held in time.
            self._hold(job, "tell-interrupted")
            self._hold(job, "interrupted")
        for job, point in points.items():
            self._hold(job, point)
        self.server.start(STOKER_HOLD=";".join(self._held))

    def submit(self, name: str, spot: str = "", holds: str = "", **parts) -> None:
        """A spot job; STOKER_SPOT and the script's HOLDS."""
        self.server.submit(
            name,
            SCRIPT.read_text(),
            EnableManagedSpotTraining=True,
            StoppingCondition={"MaxRuntimeInSeconds": 500, "MaxWaitTimeInSeconds": 500},
            Environment={"HOLDS": holds, **({"STOKER_SPOT": spot} if spot else {})},
            CheckpointConfig={"S3Uri": f"s3://{DEFAULT_BUCKET}/{name}"},
            **parts,
        )

    def interrupt(self, name: str, step: int, *hosts: str) -> None:
        """Takes a job away that stands still at a step, and lets it begin again."""
        self.wait_for_step(name, step, *hosts)
        before, after = self._file(name, "tell-interrupted"), self._file(name, "interrupted")
        after.touch()
        before.unlink()
        reached = after.with_name(f"{after.name}.reached")
        wait_until(reached.exists, f"{name} is interrupted at {step}")
        before.touch()
        reached.unlink()
        after.unlink()

    def wait_for_step(self, name: str, step: int, *hosts: str) -> None:
        """Waits until the script stands still; what it has saved is on its disk by then."""
        for host in hosts or ("algo-1",):
            file = self.checkpoints(name, host) / f"waiting-{step}.sagemaker-ignore"
            wait_until(file.exists, f"{name} stands still at step {step} on {host}")

    def has_line(self, name: str, text: str, host: str = "algo-1") -> bool:
        lines = self.server.log(name, host)
        return any(text in line for line in lines)

    def take_away(self, name: str) -> None:
        """Interrupts a job that is to stand still at `drain`: before the last upload."""
        self._file(name, "tell-interrupted").unlink()
        file = self._file(name, "drain")
        wait_until(file.with_name(f"{file.name}.reached").exists, f"{name} stands still")

    def lose_disk(self, name: str) -> None:
        """What the only host had on its disk of checkpoints, and what was known of it."""
        shutil.rmtree(self.checkpoints(name))
        for journal in self.server.root.job_dir(name).glob("*.journal"):
            journal.unlink()

    def release(self) -> None:
        """Nothing stands still any more."""
        for file in self._folder.glob("hold-*"):
            file.unlink()

    def checkpoints(self, name: str, host: str = "algo-1") -> Path:
        """The folder of a host, as it lies on this machine."""
        return self.server.root.host_dir(name, host) / "checkpoints"

    def stored(self, name: str, *parts: str) -> Path:
        """Where the platform's S3 has an object of the job's checkpoints."""
        return self.server.root.s3_dir.joinpath(DEFAULT_BUCKET, name, *parts)

    def whole(self) -> Result:
        """What a job of one host comes to that is left in peace; run once for each engine."""
        engine = self.server.engine
        if engine not in self._wholes:
            self.submit("whole")
            self._wholes[engine] = self.result("whole", interruptions=0)
        return self._wholes[engine]

    def result(self, name: str, *, interruptions: int, hosts: int = 1) -> Result:
        """What a job has come to that ended well."""
        job = self.server.wait(name)
        assert statuses(job) == [*RUN * interruptions, *LAST], (job, self.server.log(name))
        model = self.server.archive(job["ModelArtifacts"]["S3ModelArtifacts"])
        return model["weights"], [self._losses(name, f"algo-{1 + i}") for i in range(hosts)]

    def resumed(self, name: str) -> list[int]:
        """The steps a job has resumed from, in order."""
        said = [line for line in self.server.log(name) if "resumed from step " in line]
        return [int(line.split("resumed from step ")[1].split()[0]) for line in said]

    def _losses(self, name: str, host: str) -> list[str]:
        """What was said of steps; what was said twice of one counts if it differs."""
        lines = self.server.log(name, host)
        return sorted({line for line in lines if line.startswith("loss ")})

    def _hold(self, job: str, point: str) -> None:
        self._file(job, point).touch()
        self._held.append(f"{job}/{point}={self._file(job, point)}")

    def _file(self, job: str, point: str) -> Path:
        return self._folder / f"hold-{job}-{point}"


@pytest.fixture(scope="module")
def wholes() -> dict[str, Result]:
    return {}


@pytest.fixture
def make_spot(make_server, tmp_path, wholes):
    made: list[Spot] = []

    def make(engine: str = "process") -> Spot:
        made.append(Spot(make_server(engine), tmp_path, wholes))
        return made[-1]

    yield make
    for spot in made:
        spot.release()


@pytest.mark.timeout(900)
def test_jobs_interrupted_three_times_end_as_if_nothing_had_happened(make_spot):
    spot = make_spot()
    jobs = {"warned": "yes", "unwarned": "no"}
    spot.start(*jobs)
    for name, warning in jobs.items():
        spot.submit(name, f"every=10ms,times=3,pause=10ms,warning={warning}", holds="4;10;17")
    for step in (4, 10, 17):
        for name in jobs:
            spot.interrupt(name, step)
    whole = spot.whole()
    assert len(whole[1][0]) == 24
    for name in jobs:
        assert spot.result(name, interruptions=3) == whole
    assert spot.resumed("warned") == [5, 11, 18]
    assert spot.resumed("unwarned") == [3, 9, 15]
    for step in (5, 11, 18):
        said = f"stopped by SIGTERM at step {step}, checkpoint {step} saved"
        assert spot.has_line("warned", said)
        assert not spot.has_line("unwarned", said)
    assert spot.server.leftovers() == []


@pytest.mark.docker
def test_a_container_interrupted_three_times_ends_as_if_nothing_had_happened(make_spot):
    spot = make_spot("docker")
    spot.start("job")
    spot.submit("job", "every=10ms,times=3,pause=10ms", holds="4;10;17")
    for step in (4, 10, 17):
        spot.interrupt("job", step)
    assert spot.whole() == spot.result("job", interruptions=3)
    assert spot.resumed("job") == [5, 11, 18]
    assert spot.server.leftovers() == []


def test_a_server_killed_while_it_uploads_a_checkpoint_costs_nothing(make_spot):
    spot = make_spot()
    spot.start("job")
    spot.submit("job", "every=10ms,times=1,pause=10ms,warning=no", holds="1 7")
    spot.wait_for_step("job", 1)
    assert spot.server.process is not None
    pause_s3(spot.server.process.pid)
    (spot.checkpoints("job") / "go-1.sagemaker-ignore").touch()
    spot.wait_for_step("job", 7)
    uploading = "000001-step-3/*.sagemaker-uploading"
    wait_until(lambda: [*spot.checkpoints("job").glob(uploading)], "the checkpoint is on its way")
    spot.server.kill()
    assert not spot.stored("job", "000001-step-3", "rank00000.safetensors").exists()
    spot.release()
    spot.server.start()
    assert spot.result("job", interruptions=1) == spot.whole()
    assert spot.resumed("job") == [6]
    assert not [*spot.server.root.s3_dir.joinpath(".stoker/incoming").iterdir()]
    assert spot.server.leftovers() == []


def test_a_checkpoint_of_which_a_part_reached_s3_is_passed_over_and_named(make_spot):
    """The machine goes, with its disk, while the checkpoint of step 6 is on its way."""
    spot = make_spot()
    parts = {"a": "rank00000.safetensors", "b": "manifest.json"}
    spot.start(*parts, **dict.fromkeys(parts, "drain"))
    for name in parts:
        spot.submit(name, "every=10ms,times=1,pause=10ms,warning=no", holds="7")
    for name, part in parts.items():
        spot.wait_for_step(name, 7)
        for arrived in parts.values():
            first = spot.stored(name, "000001-step-3", arrived)
            wait_until(first.is_file, f"{first} is in S3")
        [other] = {*parts.values()} - {part}
        wait_until(spot.stored(name, "000002-step-6", other).is_file, f"{other} is in S3")
        spot.take_away(name)
    spot.server.kill()
    for name, part in parts.items():
        spot.lose_disk(name)
        # As if it had still been on its way.
        spot.stored(name, "000002-step-6", part).unlink(missing_ok=True)
    spot.release()
    spot.server.start()
    for name in parts:
        assert spot.result(name, interruptions=1) == spot.whole()
        assert spot.resumed(name) == [3]
    said = "checkpoint 000002-step-6 is skipped: "
    assert spot.has_line("a", f"{said}rank00000.safetensors is missing")
    assert spot.has_line("b", f"{said}it has no manifest")
    assert spot.server.leftovers() == []


@pytest.mark.docker
def test_two_containers_leave_at_the_same_step_and_resume(make_spot):
    spot = make_spot("docker")
    spot.start("job")
    spot.submit("whole", **TWO_HOSTS)
    spot.submit("job", "every=10ms,times=1,pause=10ms", holds="4", **TWO_HOSTS)
    spot.interrupt("job", 4, "algo-1", "algo-2")
    whole = spot.result("whole", interruptions=0, hosts=2)
    assert [len(losses) for losses in whole[1]] == [24, 24]
    assert spot.result("job", interruptions=1, hosts=2) == whole
    [step] = spot.resumed("job")
    for host in ("algo-1", "algo-2"):
        said = f"stopped by SIGTERM at step {step}, checkpoint {step} saved"
        assert spot.has_line("job", said, host)
    assert spot.server.leftovers() == []


def pause_s3(server: int) -> None:
    """From here on uploads begin and do not end, until the server is killed and S3 with it."""
    is_s3 = b"-m\0stoker.platform.s3\0"
    found = [pid for pid in descendants(server) if is_s3 in read_command(pid)]
    assert found
    for pid in found:
        os.kill(pid, signal.SIGSTOP)


def read_command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
