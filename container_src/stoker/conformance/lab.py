"""Where one check is tried: containers of the image, each bounded, all removed at the end."""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker.conformance.check import Failed, NotApplicable
from stoker.conformance.opt_ml import OptMl, make_opt_ml
from stoker.conformance.script import Language, Script, program_name, spell
from stoker.machine.docker import Finished, call

# What the service sets in every job. No SM_*: these the launcher has to set.
_ENVIRONMENT = {
    "TRAINING_JOB_NAME": "stoker-check",
    "TRAINING_JOB_ARN": "arn:aws:sagemaker:us-east-1:111111111111:training-job/stoker-check",
    "AWS_REGION": "us-east-1",
}
# An image may print gigabytes, fork forever or use all memory: it must not harm this machine.
_BOUNDS = ("--log-opt", "max-size=8m", "--log-opt", "max-file=1", "--pids-limit", "1024")
# Between SIGTERM and SIGKILL of StopTrainingJob.
_GRACE_SECONDS = 120
_POLL_SECONDS = 0.2


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """A container that has ended."""

    code: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def output(self) -> str:
        """Both streams, for evidence."""
        return f"{self.stdout}{self.stderr}"

    def tail(self, characters: int = 600) -> str:
        """The end of the output, for evidence."""
        return self.output.strip()[-characters:]


@dataclass(slots=True)
class Lab:
    """One check on one image, without or with an init."""

    client: str
    image: str
    label: str
    """Marks everything that is started, so that it can be found and removed."""
    init: bool = False
    limit_seconds: float = 90.0
    language: Language = "python"
    """What probes are written in."""
    full: bool = False
    """Try grace times in full instead of in part: minutes instead of seconds."""
    aborted: threading.Event = field(default_factory=threading.Event)
    """Set when the run is given up: nothing more is started."""
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="stoker-check-")))
    _started: float = field(default_factory=time.monotonic)
    _containers: list[str] = field(default_factory=list)
    _networks: list[str] = field(default_factory=list)
    _count: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def job(
        self,
        script: Script | str = "",
        **settings: Any,  # noqa: ANN401 - make_opt_ml's own
    ) -> OptMl:
        """A fresh /opt/ml whose entry point is `script`.

        Raises:
            NotApplicable: a script that is in Python only, for an image without it.
        """
        text, program = spell(script, self.language), program_name(self.language)
        root = self.folder / f"ml{next(self._count)}"
        return make_opt_ml(root, text, program=program, **settings)

    def require_python(self, reason: str) -> None:
        """Ends a check that is about Python where there is none.

        Raises:
            NotApplicable: with the reason why sh will not do.
        """
        if self.language != "python":
            raise NotApplicable(f"there is no Python in the image, and {reason}")

    def run(
        self,
        opt_ml: OptMl | None,
        *options: str,
        command: Sequence[str] = ("train",),
        environ: Mapping[str, str] | None = None,
    ) -> Ran:
        """Runs a container to its end.

        Raises:
            Failed: it does not start, or does not end in time.
        """
        return self.start(opt_ml, *options, command=command, environ=environ).wait()

    def start(
        self,
        opt_ml: OptMl | None,
        *options: str,
        command: Sequence[str] = ("train",),
        environ: Mapping[str, str] | None = None,
    ) -> Container:
        """Starts a container in the background."""
        argv = ["run", "--detach", "--label", self.label, *_BOUNDS]
        argv += ["--init"] if self.init else []
        argv += ["--volume", f"{opt_ml.root}:/opt/ml"] if opt_ml else []
        for name, text in {**_ENVIRONMENT, **(environ or {})}.items():
            argv += ["--env", f"{name}={text}"]
        # As the service names the first host; checks with a network of their own choose the name.
        if "--hostname" not in options and "--network" not in options:
            argv += ["--hostname", "algo-1"]
        started = self.docker(*argv, *options, self.image, *command)
        # The engine keeps a container that it could not start; the runner removes it by the label.
        if started.code != 0:
            raise Failed(f"the container did not start: {started.stderr.strip()[-400:]}")
        self._containers.append(started.stdout.strip())
        # Only now: that the container starts at all is worth knowing, and said.
        if self.language == "none" and opt_ml:
            raise NotApplicable(
                "the container starts, but it has neither Python nor a shell to run a script with"
            )
        return Container(lab=self, id=self._containers[-1], started=time.monotonic())

    def network(self) -> str:
        """A private network; removed with the rest."""
        name = f"stoker-check-{time.time_ns()}"
        made = self.docker("network", "create", "--label", self.label, name)
        if made.code != 0:
            raise Failed(f"no network could be made: {made.stderr.strip()[-400:]}")
        self._networks.append(name)
        return name

    def inspect(self) -> dict[str, Any]:
        """What the engine knows about the image."""
        answer = self.docker("image", "inspect", self.image)
        found: dict[str, Any] = json.loads(answer.stdout)[0]
        return found

    def docker(self, *arguments: str, timeout_seconds: float = 60) -> Finished:
        """Any call to the engine, within what is left of the check's time."""
        if self.aborted.is_set():
            raise Failed("the run was given up")
        bound = min(timeout_seconds, self.seconds_left())
        return call(self.client, *arguments, timeout_seconds=bound)

    def seconds_left(self) -> float:
        """Of the check's time limit; never less than a second, to be able to clean up."""
        return max(1.0, self._started + self.limit_seconds - time.monotonic())

    def close(self) -> None:
        """Removes all it has made. Files of the container's root are removed by one."""
        if self._containers:
            call(self.client, "rm", "--force", "--volumes", *self._containers)
        if self._networks:
            call(self.client, "network", "rm", *self._networks)
        shutil.rmtree(self.folder, ignore_errors=True)
        # The container's root wrote there; who runs the check may not be allowed to remove it.
        if self.folder.exists():
            mount = f"{self.folder}:/stoker-check"
            remove = ("--entrypoint", "rm", "--volume", mount, self.image, "-rf", "/stoker-check/")
            call(self.client, "run", "--rm", "--label", self.label, *remove)
            shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class Container:
    """A running container of the image."""

    lab: Lab
    id: str
    started: float

    def wait(self) -> Ran:
        """Waits for its end, at most as long as the check may take.

        Raises:
            Failed: it did not end, and was killed.
        """
        # Not `docker run` in the foreground: to kill its client at the time limit would not end
        # the container.
        ended = self.lab.docker("wait", self.id, timeout_seconds=self.lab.seconds_left())
        if ended.code != 0:
            tail = self.logs()[-400:]
            call(self.lab.client, "kill", self.id)
            raise Failed(f"the container did not end within the check's time; it said: {tail}")
        answer = self._logs()
        return Ran(
            code=int(ended.stdout),
            stdout=answer.stdout,
            stderr=answer.stderr,
            seconds=time.monotonic() - self.started,
        )

    def stop(self, grace_seconds: int = _GRACE_SECONDS) -> Ran:
        """SIGTERM, the grace time, SIGKILL, as StopTrainingJob does it."""
        # The client returns after SIGKILL, so it needs some seconds more than the grace time.
        self.lab.docker(
            "stop", "--time", str(grace_seconds), self.id, timeout_seconds=grace_seconds + 15
        )
        return self.wait()

    def signal(self, name: str) -> None:
        """Sends a signal to the main process."""
        self.lab.docker("kill", "--signal", name, self.id)

    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        state = self.lab.docker("inspect", "--format", "{{.State.Running}}", self.id)
        return state.stdout.strip() == "true"

    def wait_until(self, fact: Callable[[], bool], within_seconds: float) -> bool:
        """Waits for a fact, best one on disk: some images hold their output back.

        Returns:
            False if the container ended, or the time passed, before it came true.
        """
        deadline = time.monotonic() + min(within_seconds, self.lab.seconds_left())
        while not fact():
            if time.monotonic() > deadline or not self.is_running():
                # Once more: the last thing it did before its end may be the fact.
                return fact()
            time.sleep(_POLL_SECONDS)
        return True

    def wait_for(self, text: str, within_seconds: float = 45) -> None:
        """Waits until it has printed a text.

        Raises:
            Failed: it never does.
        """
        deadline = time.monotonic() + min(within_seconds, self.lab.seconds_left())
        while text not in (said := self.logs()):
            if time.monotonic() > deadline:
                raise Failed(f"{text!r} was never printed; it said: {said.strip()[-400:]}")
            time.sleep(_POLL_SECONDS)

    def logs(self) -> str:
        """What it has printed so far, both streams."""
        answer = self._logs()
        return answer.stdout + answer.stderr

    def execute(self, *command: str) -> Finished:
        """Runs a command inside."""
        return self.lab.docker("exec", self.id, *command)

    def _logs(self) -> Finished:
        return self.lab.docker("logs", "--tail", "20000", self.id)
