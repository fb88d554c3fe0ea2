"""The engine of choice: each host of a job is a container."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from stoker.machine.docker import Finished
from stoker.machine.docker_client import DockerCli, read_frames
from stoker.machine.failures import EngineLost
from stoker.platform.engines.container import (
    ROOT_LABEL,
    TOP_FORMAT,
    broken_variables,
    environment_file,
    heeds,
    make_create_arguments,
    read_run,
    with_certificates,
)
from stoker.platform.engines.docker_networks import DockerNetworks
from stoker.platform.engines.engine import (
    LISTEN_SECONDS,
    EngineFailed,
    Exit,
    Launch,
    LayersRefused,
    LocalImage,
    Network,
    Running,
    Standby,
    root_id,
)
from stoker.platform.engines.images import DockerImages
from stoker.platform.engines.standby import STANDBY_LABEL, hand_over, make_standby_arguments
from stoker.platform.model.root import Root

_PATIENCE_SECONDS = 30.0
_PAUSE_SECONDS = 0.2
_LOOK_SECONDS = 0.02
_REMOVE_SECONDS = 60.0
_CHOWN_SECONDS = 600.0  # a folder may have millions of files
_HAND_OVER_SECONDS = 20.0
_ENDED = ("exited", "dead")
_VOLUME_FAILED = "failed to mount local volume"
_NO_MORE = ("no such container", "no such object", "is not running")


class DockerEngine:
    """Drives Docker by its client."""

    name: Literal["docker"] = "docker"

    def __init__(
        self,
        root: Root,
        *,
        client: Sequence[str],
        reason: str,
        patience_seconds: float = _PATIENCE_SECONDS,
        certificates: Path | None = None,
    ) -> None:
        """Makes nothing yet.

        Args:
            root: whose jobs these are.
            client: the program, with options such as --host if need be.
            reason: why this engine was chosen.
            patience_seconds: how long a lost engine is waited for.
            certificates: a file that containers trust, too.
        """
        self.reason = reason
        self._root = root
        self._certificates = certificates
        self._id = root_id(root.folder)
        self._cli = DockerCli(client, patience_seconds=patience_seconds)
        self._networks = DockerNetworks(self._cli, self._id)
        self._images = DockerImages(self._cli, lambda: self._has_gpus, self._id)
        self._shaken: set[str] = set()
        self._taken_at: dict[str, float] = {}
        """When a container that waited got its command."""
        self.layers_refused = ""

    def require_image(self, image: str) -> None:
        """Of that name or, for an image of AWS, ours in its place."""
        self._images.find(image)

    def explain_image(self, image: str) -> list[str]:
        """Which of our images runs in place of an image of AWS, and how it differs."""
        return self._images.explain(image)

    def image_digest(self, image: str) -> str:
        """The id: a local image has no digest of a registry."""
        return self._images.digest(image)

    def list_images(self, repository: str) -> list[LocalImage]:
        """Those that Docker has."""
        return self._images.list_tagged(repository)

    def s3_host(self) -> str:
        """The gateway of Docker's own bridge: containers of every network reach it."""
        return self._gateway

    def make_network(self, job: str, hosts: Sequence[str], *, isolated: bool) -> Network:
        """A bridge for several hosts; a single one needs none, or must have none."""
        if len(hosts) == 1:
            return Network(name="none" if isolated else "bridge", addresses={})
        return self._networks.make(job, hosts, internal=isolated)

    def remove_network(self, job: str) -> None:
        """Waits for the last container to leave it."""
        self._networks.remove(job)

    def start(self, launch: Launch) -> None:
        """Creates and starts the container; one of that name is taken as it is."""
        container = self._container(launch.name)
        launch = self._complete(launch)
        if launch.standby is not None and self._take_over(launch, launch.standby):
            return
        with environment_file(launch) as file:
            arguments = make_create_arguments(
                launch, container=container, root_id=self._id, gpus=self._has_gpus, env_file=file
            )
            created = self._cli.ask("create", *arguments, variables=broken_variables(launch))
        exists = "is already in use" in created.tail
        if created.code != 0 and not exists:
            raise self._failed(launch, created)
        # It was started before: each stage of a job may be acted on twice (decision 12).
        if exists and self._state(container).get("Status") != "created":
            return
        started = self._cli.call("POST", f"/containers/{container}/start")
        if started.code != 0:
            self.remove(launch.name)
            if _VOLUME_FAILED in started.tail and any(m.layers for m in launch.mounts):
                words = started.tail.rpartition(": ")[2].splitlines()[0]
                self.layers_refused = f"Docker cannot mount an overlay here ({words})"
                raise LayersRefused(self.layers_refused, fix="the data is copied instead")
            raise self._failed(launch, started)

    def keep_warm(self, launch: Launch) -> None:
        """A container whose shell waits for the command."""
        launch = self._complete(launch)
        container = self._container(launch.name)
        arguments = make_standby_arguments(
            launch, container=container, root_id=self._id, gpus=self._has_gpus
        )
        created = self._cli.ask("create", *arguments)
        if created.code == 0:
            created = self._cli.call("POST", f"/containers/{container}/start")
        if created.code != 0:
            self.remove(launch.name)
            raise self._failed(launch, created)

    def list_standbys(self) -> list[str]:
        """Those whose name is still the one that they were made with."""
        found = self._list_containers()
        return [name for name, labels in found if labels.get(STANDBY_LABEL) == name]

    def wait(self, name: str, timeout_seconds: float) -> Exit | None:
        """The engine tells of the end; what the container's state says counts."""
        container, deadline = self._container(name), time.monotonic() + timeout_seconds
        while True:
            state = self._try_state(container)
            if state is not None and state["Status"] in _ENDED:
                return self._exit(name, state)
            left_seconds = deadline - time.monotonic()
            if left_seconds <= 0:
                return None
            if state is None:
                self._shaken.add(name)
                time.sleep(min(_PAUSE_SECONDS, left_seconds))
                continue
            if not state["Running"]:  # not yet, or it is just being removed
                time.sleep(_LOOK_SECONDS)
                continue
            try:
                self._cli.call_within("POST", f"/containers/{container}/wait", left_seconds)
            except ConnectionError:
                self._shaken.add(name)

    def signal(self, name: str, number: int) -> bool:
        """To the container's first process; if that is killed, the kernel ends the others."""
        heeded = number != signal.SIGTERM or self._await_listener(self._container(name))
        answer = self._cli.ask("kill", "--signal", str(number), self._container(name))
        if answer.code != 0 and not _is_no_more(answer):
            raise EngineFailed(f"{name} cannot be signalled: {answer.tail}", fix="try again")
        return heeded

    def read_log(self, name: str, start_byte: int) -> Iterator[bytes]:
        """Follows; then reads once more, as engine 20.10 may keep back the last of it."""
        container, position = self._container(name), start_byte
        while True:
            state = self._try_state(container)
            if state is None:
                time.sleep(_PAUSE_SECONDS)
                continue
            over = not state["Running"]
            try:
                for chunk in read_frames(
                    self._cli, container, follow=not over, skip_bytes=position
                ):
                    position += len(chunk)
                    yield chunk
            except ConnectionError:
                time.sleep(_PAUSE_SECONDS)
                continue
            if over:
                return

    def remove(self, name: str) -> None:
        """By force, with the volumes the image may have declared."""
        container, deadline = self._container(name), time.monotonic() + _REMOVE_SECONDS
        while True:
            answer = self._cli.call("DELETE", f"/containers/{container}?force=1&v=1")
            if answer.code == 0 or _is_no_more(answer):
                break
            if time.monotonic() > deadline:
                raise EngineFailed(
                    f"{container} cannot be removed: {answer.tail}",
                    fix=f"docker rm --force {container}",
                )
            time.sleep(_PAUSE_SECONDS)  # such as: its removal is in progress already
        self._shaken.discard(name)
        self._taken_at.pop(container, None)

    def list_runs(self) -> list[Running]:
        """By label, so that names are free."""
        found = [read_run(labels, name) for name, labels in self._list_containers()]
        return sorted((run for run in found if run is not None), key=lambda run: run.name)

    def _list_containers(self) -> list[tuple[str, Mapping[str, str]]]:
        """Names without what makes them ours, and labels."""
        chosen = quote(json.dumps({"label": [f"{ROOT_LABEL}={self._id}"]}))
        answer = self._cli.call("GET", f"/containers/json?all=1&filters={chosen}")
        if answer.code != 0:
            raise EngineFailed(f"containers cannot be listed: {answer.tail}", fix="try again")
        return [
            (each["Names"][0].strip("/").removesuffix(f"-{self._id}"), each["Labels"])
            for each in json.loads(answer.stdout)
            if each["Names"]
        ]

    def take_ownership(self, folder: Path, image: str) -> None:
        """By a short container of the same image: only root may give files away."""
        if os.getuid() == 0:
            return
        owner = f"{os.getuid()}:{os.getgid()}"
        answer = self._cli.ask(
            *("run", "--rm", "--pull", "never", "--network", "none", "--user", "0"),
            *("--label", f"{ROOT_LABEL}.helper={self._id}", "--entrypoint", "chown"),
            *("--volume", f"{folder.absolute()}:/folder", self._images.find(image)),
            *("--no-dereference", "--recursive", owner, "/folder"),
            timeout_seconds=_CHOWN_SECONDS,
        )
        if answer.code != 0:
            raise EngineFailed(
                f"some files of {folder} belong to root: {answer.tail}",
                fix=f"sudo chown -R {owner} {folder}",
            )

    def adapt_config_files(self, host_dir: Path) -> None:
        """A container sees /opt/ml itself."""

    def sweep(self) -> None:
        """Containers first: a network goes only when it is empty."""
        for run in self.list_runs():
            if not self._root.job_dir(run.job).exists():
                self.remove(run.name)
        for job in self._networks.jobs():
            if not self._root.job_dir(job).exists():
                self._networks.remove(job)

    def close(self) -> None:
        """Ends the lines to the engine; containers need none."""
        self._cli.close()

    def _complete(self, launch: Launch) -> Launch:
        """With the image that runs, and what this machine trusts."""
        environment = {**self._images.environment(launch.image), **launch.environment}
        image = self._images.find(launch.image)
        has_code = self._images.has_code(image)
        found = replace(launch, image=image, environment=environment, image_has_code=has_code)
        return with_certificates(found, self._certificates)

    def _take_over(self, launch: Launch, standby: Standby) -> bool:
        """Gives the run to a container that waits; False, and nothing left of it, if it cannot."""
        waiting, container = self._container(standby.name), self._container(launch.name)
        image = self._images.inspect(launch.image)
        found = self._cli.inspect(f"/containers/{waiting}/json")
        if found and found["State"]["Running"] and image and found["Image"] == image["Id"]:
            self._cli.call("POST", f"/containers/{waiting}/rename?name={container}")
        elif found:  # it was stopped meanwhile, or the tag names another image by now
            self.remove(standby.name)
        taken = self._cli.inspect(f"/containers/{container}/json")
        if not image or not taken or STANDBY_LABEL not in taken["Config"]["Labels"]:
            return False
        self._taken_at[container] = time.time()
        entrypoint = image["Config"].get("Entrypoint") or ()
        if hand_over(launch, entrypoint, lambda: self._is_running(container), _HAND_OVER_SECONDS):
            return True
        self.remove(launch.name)
        return False

    def _is_running(self, container: str) -> bool:
        return bool(self._state(container)["Running"])

    def _container(self, name: str) -> str:
        return f"{name}-{self._id}"  # two roots may have jobs of one name

    def _exit(self, name: str, state: Mapping[str, Any]) -> Exit:
        if name in self._shaken and state["ExitCode"] != 0:
            raise EngineLost(
                f"the Docker engine went away while {name} ran, which then ended with code "
                f"{state['ExitCode']}",
                fix='let the job run again; "live-restore": true in /etc/docker/daemon.json keeps'
                " containers over a restart of the engine",
            )
        return Exit(code=state["ExitCode"], oom_killed=state["OOMKilled"], error=state["Error"])

    def _await_listener(self, container: str) -> bool:
        """Until a container that has just started listens for SIGTERM; False if it does not."""
        while (state := self._try_state(container)) and state["Running"]:
            began = max(_timestamp(state["StartedAt"]), self._taken_at.get(container, 0.0))
            # Asked of the engine: it may run on another machine.
            answer = self._cli.try_to_ask("top", container, "-eo", TOP_FORMAT)
            if answer is None or answer.code != 0:  # an engine whose `ps` cannot tell
                return True
            if heeds(answer.tail, state["Pid"], signal.SIGTERM):
                return True
            if time.time() - began > LISTEN_SECONDS:
                return False
            time.sleep(_LOOK_SECONDS)
        return True

    def _state(self, container: str) -> Mapping[str, Any]:
        while (state := self._try_state(container)) is None:
            time.sleep(_PAUSE_SECONDS)
        return state

    def _try_state(self, container: str) -> Mapping[str, Any] | None:
        """None if the engine does not answer now."""
        answer = self._cli.try_to_call("GET", f"/containers/{container}/json")
        if answer is None:
            return None
        if answer.code != 0:
            raise EngineLost(
                f"the container {container} is gone: {answer.tail}",
                fix="let the job run again, and leave its containers to Stoker",
            )
        state: Mapping[str, Any] = json.loads(answer.stdout)["State"]
        return state

    def _failed(self, launch: Launch, answer: Finished) -> EngineFailed:
        words = answer.tail.removeprefix("Error response from daemon: ").partition("\nError: ")[0]
        return EngineFailed(
            f"{launch.host} cannot start: {words}",
            fix=f"try it by hand: docker run --rm -it --entrypoint sh {launch.image}",
        )

    @cached_property
    def _gateway(self) -> str:
        return self._networks.gateway()

    @cached_property
    def _has_gpus(self) -> bool:
        answer = self._cli.ask("info", "--format", "{{json .Runtimes}}")
        return answer.code == 0 and "nvidia" in json.loads(answer.tail)


def _timestamp(text: str) -> float:
    """Seconds since the epoch, of the engine's nine digits behind the second."""
    return datetime.fromisoformat(f"{text[:19]}+00:00").timestamp()


def _is_no_more(answer: Finished) -> bool:
    return any(words in answer.tail.lower() for words in _NO_MORE)
