"""Lets the SageMaker SDKs find the platform's role, and wait no longer than its jobs take.

`stoker local env` puts this folder first into PYTHONPATH. `get_execution_role()` of both SDKs asks
a fixed address of AWS, unless a file says that this is a notebook instance: then the instance's
role is asked for by the session's own client. So the SDKs are shown such a file. A session with
the platform gets the platform's role; AWS does not know the instance, and the SDK continues as if
there were no file. Nothing outside of this process is changed.

`account_id()` and other questions about the caller go to an address of AWS, too, whatever the
endpoint is: as long as that is this machine's, they go there.

Both SDKs sleep 5 to 10 s between two looks at a job, and SDK v2 looks at its status every 30 s.
So their modules get a `time` of their own, whose `sleep` is short as long as the endpoint of AWS
is this machine's; otherwise it is the ordinary one.

Two things more of SDK v2: what local jobs did is not reported to AWS, and the containers of its
own local mode get an address at which they reach the platform's S3.

Standard library only, and old syntax: it runs in the user's Python, where Stoker need not be.
"""

from __future__ import annotations

import os
import sys
import time
from importlib import import_module
from importlib.machinery import PathFinder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

_VARIABLE = "STOKER_NOTEBOOK_METADATA"
# SDK v2; SDK v3; sagemaker-core 1, of which SDK v2's `sagemaker.modules` is made.
_MODULES = (
    "sagemaker.session",
    "sagemaker.core.helper.session_helper",
    "sagemaker_core.helper.session_helper",
)
_CONSTANT = "NOTEBOOK_METADATA_FILE"
_STS_ADDRESS = "sts_regional_endpoint"
# SDK v2 reports to AWS what jobs did. The platform's configuration switches that off, but the
# sessions of sagemaker-core 1 have no configuration.
_TELEMETRY, _SEND = "sagemaker.telemetry.telemetry_logging", "_send_telemetry_request"
# Those that wait for jobs; True: only to compare the time since the last look with 30 s do they
# subtract one time from another.
_WAITING = {
    "sagemaker.session": True,
    "sagemaker.core.helper.session_helper": True,
    "sagemaker.core.processing": True,
    "sagemaker.core.resources": False,
    "sagemaker.core.common_utils": False,
    "sagemaker_core.main.resources": False,
}
# Its containers are given the address of S3 that the SDK itself uses: they have another loopback.
_LOCAL_MODE, _S3_ENDPOINT = "sagemaker.local.image", "AWS_ENDPOINT_URL_S3"
_CONTAINERS = "STOKER_CONTAINER_ENDPOINT"
_SHORTEST_SECONDS, _LONGEST_SECONDS, _SHARE = 0.5, 2.0, 0.05
# Half a second of waiting then counts as the 30 s after which SDK v2 looks at the status.
_HASTE = 60


def adapt_sdks(file: str) -> None:
    """Name the file to the SDKs, loaded already or later, and let them wait for local jobs."""
    for name in {*_MODULES, *_WAITING, _TELEMETRY, _LOCAL_MODE}:
        if name in sys.modules:
            _adapt(sys.modules[name], name, file)
    sys.meta_path[:] = [
        finder for finder in sys.meta_path if type(finder).__name__ != "_SdkFinder"
    ]
    sys.meta_path.insert(0, _SdkFinder(file))


def _adapt(module: ModuleType, name: str, file: str) -> None:
    if name in _MODULES:
        setattr(module, _CONSTANT, file)
        regional = getattr(module, _STS_ADDRESS, None)
        if regional is not None:
            setattr(module, _STS_ADDRESS, _make_sts_address(regional))
    send = getattr(module, _SEND, None) if name == _TELEMETRY else None
    if send is not None:
        setattr(module, _SEND, lambda *given: None if _is_local() else send(*given))
    if name == _LOCAL_MODE and hasattr(module, "_SageMakerContainer"):
        _adapt_local_mode(module._SageMakerContainer)
    if name in _WAITING and getattr(module, "time", None) is time:
        setattr(module, "time", _Clock(looks_by_subtraction=_WAITING[name]))  # noqa: B010 - a module has no such type


def _make_sts_address(regional: Callable[[str], str]) -> Callable[[str], str]:
    """The SDK's function that names the region's STS, unless the endpoint is this machine's."""
    return lambda region: _find_local_endpoint("STS") or regional(region)


def _adapt_local_mode(container: Any) -> None:  # noqa: ANN401 - a class of the user's SDK
    """Let containers of the SDK's local mode reach the platform's S3 by an address they have."""
    write = container._generate_compose_file

    def write_for_containers(
        self: object,
        command: str,
        additional_volumes: object = None,
        additional_env_vars: dict[str, str] | None = None,
    ) -> object:
        given = dict(additional_env_vars or {})
        reachable = os.environ.get(_CONTAINERS)  # noqa: TID251 - as below
        if reachable and given.get(_S3_ENDPOINT, "") == _find_local_endpoint("S3"):
            given[_S3_ENDPOINT] = reachable
        return write(self, command, additional_volumes, given)

    container._generate_compose_file = write_for_containers


class _Clock:
    """The module `time` as a module that waits for local jobs should see it."""

    def __init__(self, *, looks_by_subtraction: bool) -> None:
        self._looks_by_subtraction = looks_by_subtraction
        self._began = self._last = 0.0

    def __getattr__(self, name: str) -> object:
        return getattr(time, name)

    def sleep(self, seconds: float) -> None:
        """Up to 2 s, and about a twentieth of the time that was waited before."""
        now = time.monotonic()
        if now - self._last > 2 * _LONGEST_SECONDS:  # another wait begins
            self._began = now
        if _is_local():
            waited = max(_SHORTEST_SECONDS, _SHARE * (now - self._began))
            seconds = min(seconds, waited, _LONGEST_SECONDS)
        time.sleep(seconds)
        self._last = time.monotonic()

    def time(self) -> float:
        """Now; a limit that a user has set is compared with it, and stays what it is."""
        now = time.time()
        return _Moment(now) if self._looks_by_subtraction and _is_local() else now


class _Moment(float):
    """A time since which more seconds have passed than the clock says."""

    def __sub__(self, other: float) -> float:
        passed = float(self) - float(other)
        return passed * _HASTE if isinstance(other, _Moment) else passed


def _is_local() -> bool:
    return bool(_find_local_endpoint("SAGEMAKER"))


def _find_local_endpoint(service: str) -> str:
    """The endpoint if it is this machine's: AWS itself has no address without encryption."""
    names = ("AWS_ENDPOINT_URL_" + service, "AWS_ENDPOINT_URL")
    found = next(filter(None, map(os.environ.get, names)), "")  # noqa: TID251 - as below
    return found if found.startswith("http://") else ""


class _SdkFinder:
    """Finds the modules as they would be found anyway, and adapts them."""

    def __init__(self, file: str) -> None:
        self._file = file

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in {*_MODULES, *_WAITING, _TELEMETRY, _LOCAL_MODE}:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_set(module: ModuleType) -> None:
                run(module)
                _adapt(module, name, self._file)

            spec.loader.exec_module = run_and_set  # type: ignore[method-assign]
        return spec


def _import_the_next() -> None:
    """The sitecustomize that would have been imported if this one were not there."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder or ".") != here]
    mine = sys.modules.pop(__name__)
    try:
        import_module(__name__)
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules[__name__] = mine


if __name__ == "sitecustomize":
    _file = os.environ.get(_VARIABLE)  # noqa: TID251 - Stoker's own reading need not be here
    if _file:
        adapt_sdks(_file)
    _import_the_next()
