"""The images of the Docker engine: which one runs for the name that a request has."""

from __future__ import annotations

import http.client
import json
import tarfile
import threading
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any
from urllib.parse import quote

from stoker.contract.paths import OPT_ML
from stoker.machine.docker import make_image_fix
from stoker.machine.docker_client import DockerCli
from stoker.machine.failures import ImageMissing
from stoker.machine.stock_images import (
    StockImage,
    find_stock_image,
    is_of_ecr,
    list_repositories,
)
from stoker.platform.engines.engine import LocalImage
from stoker.platform.model.root import ACCOUNT

# TensorFlow reads it when it is imported: tf.keras is then the package tf_keras, Keras 2.
_KERAS_2 = {"TF_USE_LEGACY_KERAS": "1"}


class DockerImages:
    """Only what is on this machine is used: nothing is ever pulled."""

    def __init__(self, cli: DockerCli, has_gpus: Callable[[], bool], root_id: str) -> None:
        self._cli = cli
        self._root_id = root_id
        self._has_gpus = has_gpus
        self._have_code: dict[str, bool] = {}  # by the image's id
        self._looking = threading.Lock()

    def find(self, image: str) -> str:
        """The image that runs for a name: of that name or, for one of AWS's, ours in its place.

        Raises:
            ImageMissing: there is none; the fix says how to get it.
        """
        stock = find_stock_image(image)
        answer = self._cli.call("GET", _path(image))
        if answer.code == 0:
            return image
        own = f"give an image of your own this name: docker tag IMAGE {image}"
        if stock is None:
            raise ImageMissing(
                f"Docker has no image {image}{_explain_answer(answer.tail)}",
                fix=_make_fix(image, own=own),
            )
        if not stock.flavor:
            raise ImageMissing(
                f"{stock.name} is an image of AWS, and {stock.refusal} (it has some for: "
                f"{list_repositories()})",
                fix=f"pass image_uri=, or {own}",
            )
        wanted = stock.list_local(has_gpus=self._has_gpus())
        for local in wanted:
            if self.inspect(local) is not None:
                return local
        raise ImageMissing(
            f"{stock.name} is an image of AWS, in whose place {wanted[-1]} would run, which is not"
            " built",
            fix=f"{make_image_fix(wanted[-1])}; or {own}",
        )

    def explain(self, image: str) -> list[str]:
        """What runs in place of an image of AWS, for the log; nothing for any other image."""
        stock = find_stock_image(image)
        if stock is None or (local := self.find(image)) == image:
            return []
        return _explain(stock, image, local, labels=self._read_labels(local))

    def environment(self, image: str) -> Mapping[str, str]:
        """Variables that bring what runs closer to the image of AWS that was asked for."""
        stock = find_stock_image(image)
        is_ours = stock is not None and stock.wants_keras_2 and self.find(image) != image
        return _KERAS_2 if is_ours else {}

    def digest(self, image: str) -> str:
        """The id: a local image has no digest of a registry."""
        try:
            found = self.inspect(self.find(image))
        except ImageMissing:
            return ""
        return str(found["Id"]) if found else ""

    def has_code(self, image: str) -> bool:
        """Whether the image brings code in /opt/ml/code, as AWS's toolkit expects it there."""
        identity = str((self.inspect(image) or {}).get("Id", ""))
        with self._looking:  # jobs that start together would remove each other's container
            if identity and identity not in self._have_code:
                self._have_code[identity] = self._look_for_code(identity)
        return self._have_code.get(identity, False)

    def _look_for_code(self, identity: str) -> bool:
        """By a container that is never started: an image itself cannot be read."""
        # The name finds the one again that a server left here when it was killed.
        name = f"stoker-look-{self._root_id}-{identity[-12:]}"
        options = ("--name", name, "--pull", "never", "--entrypoint", "none")
        made = self._cli.ask("create", *options, identity)
        if made.code != 0 and "is already in use" not in made.tail:
            return False  # the run will say why
        container = f"/containers/{name}"
        try:
            with self._cli.dialled() as connection:
                connection.request("GET", f"{container}/archive?path={OPT_ML}/code")
                answer = connection.getresponse()
                if answer.status != http.HTTPStatus.OK:
                    return False
                with tarfile.open(fileobj=answer, mode="r|") as tree:
                    # The folder itself comes first.
                    return len(list(islice(tree, 2))) > 1
        except (http.client.HTTPException, OSError, tarfile.TarError):
            return False
        finally:
            self._cli.call("DELETE", f"{container}?force=1&v=1")

    def list_tagged(self, repository: str) -> list[LocalImage]:
        """Those of a repository, the newest first."""
        filters = quote(json.dumps({"reference": [repository]}))
        found = json.loads(self._cli.call("GET", f"/images/json?filters={filters}").stdout or "[]")
        return [
            LocalImage(
                digest=each["Id"],
                tags=tuple(
                    name.removeprefix(f"{repository}:")
                    for name in each["RepoTags"]
                    if name.startswith(f"{repository}:")
                ),
                size_bytes=each["Size"],
                created=each["Created"],
            )
            for each in found
        ]

    def inspect(self, image: str) -> Mapping[str, Any] | None:
        """What the engine knows about an image of exactly this name."""
        return self._cli.inspect(_path(image))

    def _read_labels(self, image: str) -> Mapping[str, str]:
        found = self.inspect(image) or {}
        return found.get("Config", {}).get("Labels") or {}


def _make_fix(image: str, *, own: str) -> str:
    """How to get an image that is not one of AWS's that the platform knows."""
    if image.startswith(f"{ACCOUNT}.dkr.ecr."):
        return own  # the platform's own registry: nothing can be pulled
    pull = make_image_fix(image)
    if is_of_ecr(image):
        return f"{pull}, once docker login has been done for that registry; or {own}"
    return pull


def _explain_answer(said: str) -> str:
    """What the engine said, unless it is only that there is no such image."""
    return "" if "no such image" in said.lower() else f": {said}"


def _explain(stock: StockImage, image: str, local: str, *, labels: Mapping[str, str]) -> list[str]:
    version, python = labels.get(stock.label, ""), labels.get("stoker.python.version", "")
    versions = f"{stock.framework} {version}, Python {python}".strip()
    lines = [f"asked for {image}, running {local}{f' ({versions})' if version else ''}"]
    if stock.wants_keras_2:
        lines.append(
            "tf.keras is Keras 2, as it was in that version (TF_USE_LEGACY_KERAS=1); fix: "
            "environment={'TF_USE_LEGACY_KERAS': '0'} for Keras 3"
        )
    if missing := stock.list_differences(version, python):
        lines.append(
            f"not in {local}: {', '.join(missing)}; fix: if the script needs it, pull or build an "
            "image that has it, and name it in image_uri="
        )
    return lines


def _path(image: str) -> str:
    return f"/images/{quote(image, safe='/:@')}/json"
