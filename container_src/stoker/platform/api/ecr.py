"""The registry of images (ECR), as notebooks use it that build their own.

A repository is a file in the root; its images are those that this machine's Docker has under the
registry's name. `docker push` and `docker pull` are answered by the `docker` of
`stoker local env` (platform/model/docker.sh), jobs run the images by the same names.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from stoker.platform.api.json_protocol import JsonProtocol
from stoker.platform.api.service import Operation, Service
from stoker.platform.engines.engine import Engine, LocalImage
from stoker.platform.model.faults import ApiFault
from stoker.platform.model.root import ACCOUNT, REGION, Root

_TOKEN_SECONDS = 12 * 3600  # as long as the service's tokens are valid
_LONGEST_PAGE = 1000  # the service's limit

Params = Mapping[str, Any]


def make_ecr(root: Root, engine: Engine) -> Service:
    """The service over the root's repositories and the engine's images."""
    return Service(
        name="ecr",
        protocol=JsonProtocol(target_prefix="AmazonEC2ContainerRegistry_V20150921"),
        operations=_Registry(root, engine).operations(),
    )


class _Registry:
    def __init__(self, root: Root, engine: Engine) -> None:
        self._folder = root.repositories_dir
        self._engine = engine

    def operations(self) -> dict[str, Operation]:
        return {
            "GetAuthorizationToken": _authorize,
            "CreateRepository": self._create,
            "DescribeRepositories": self._describe,
            "DeleteRepository": self._delete,
            "DescribeImages": self._describe_images,
            "ListImages": self._list_images,
        }

    def _create(self, params: Params) -> Mapping[str, Any]:
        name = params["repositoryName"]
        try:
            self._file(name).touch(exist_ok=False)
        except FileExistsError as error:
            raise ApiFault(
                "RepositoryAlreadyExistsException",
                f"The repository with name '{name}' already exists in the registry with id "
                f"'{ACCOUNT}'",
            ) from error
        return {"repository": _show(self._file(name), params)}

    def _describe(self, params: Params) -> Mapping[str, Any]:
        names = params.get("repositoryNames")
        files = map(self._find, names) if names else sorted(self._folder.iterdir())
        return {"repositories": [_show(file) for file in files]}

    def _delete(self, params: Params) -> Mapping[str, Any]:
        file = self._find(params["repositoryName"])
        if not params.get("force") and self._images(file):
            raise ApiFault(
                "RepositoryNotEmptyException",
                f"The repository with name '{_name(file)}' in registry with id '{ACCOUNT}' cannot "
                "be deleted because it still contains images",
            )
        shown = _show(file)
        file.unlink(missing_ok=True)
        return {"repository": shown}

    def _describe_images(self, params: Params) -> Mapping[str, Any]:
        file = self._find(params["repositoryName"])
        images = self._images(file)
        if wanted := params.get("imageIds"):
            images = [_choose(images, each, _name(file)) for each in wanted]
        return {"imageDetails": [_detail(image, _name(file)) for image in images]}

    def _list_images(self, params: Params) -> Mapping[str, Any]:
        images = self._images(self._find(params["repositoryName"]))
        identities = [
            {"imageDigest": image.digest, "imageTag": tag}
            for image in images
            for tag in image.tags
        ]
        return {"imageIds": identities[:_LONGEST_PAGE]}

    def _images(self, file: Path) -> list[LocalImage]:
        return self._engine.list_images(f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/{_name(file)}")

    def _find(self, name: str) -> Path:
        file = self._file(name)
        if not file.exists():
            raise ApiFault(
                "RepositoryNotFoundException",
                f"The repository with name '{name}' does not exist in the registry with id "
                f"'{ACCOUNT}'",
            )
        return file

    def _file(self, name: str) -> Path:
        return self._folder / name.replace("/", ":")  # which no name has


def _authorize(params: Params) -> Mapping[str, Any]:
    """A password of the form of ECR's. No registry takes it: `docker login` is not needed here."""
    token = base64.b64encode(b"AWS:local-platform").decode()
    return {
        "authorizationData": [
            {
                "authorizationToken": token,
                "expiresAt": time.time() + _TOKEN_SECONDS,
                "proxyEndpoint": f"https://{account}.dkr.ecr.{REGION}.amazonaws.com",
            }
            for account in params.get("registryIds") or [ACCOUNT]
        ]
    }


def _show(file: Path, params: Params | None = None) -> dict[str, Any]:
    name = _name(file)
    return {
        "repositoryArn": f"arn:aws:ecr:{REGION}:{ACCOUNT}:repository/{name}",
        "registryId": ACCOUNT,
        "repositoryName": name,
        "repositoryUri": f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/{name}",
        "createdAt": file.stat().st_mtime,
        "imageTagMutability": (params or {}).get("imageTagMutability", "MUTABLE"),
    }


def _name(file: Path) -> str:
    return file.name.replace(":", "/")


def _choose(images: Iterable[LocalImage], wanted: Mapping[str, str], name: str) -> LocalImage:
    for image in images:
        if wanted.get("imageTag") in image.tags or wanted.get("imageDigest") == image.digest:
            return image
    raise ApiFault(
        "ImageNotFoundException",
        f"The image with imageId {dict(wanted)} does not exist within the repository with name "
        f"'{name}' in the registry with id '{ACCOUNT}'",
    )


def _detail(image: LocalImage, name: str) -> dict[str, Any]:
    return {
        "registryId": ACCOUNT,
        "repositoryName": name,
        "imageDigest": image.digest,
        "imageTags": list(image.tags),
        "imageSizeInBytes": image.size_bytes,
        "imagePushedAt": image.created,
    }
