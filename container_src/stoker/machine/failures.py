"""What can go wrong on the user's machine; each carries the exit code of the command.

HostError
├── EngineMissing    no Docker engine answers
├── EngineLost       an engine stopped answering, or what it ran is gone
│   └── EngineSilent the engine does not answer; what it runs may continue
├── BuilderMissing   an engine answers, but no client here can drive BuildKit
├── BuildFailed      the image could not be built
├── ImageMissing     the engine does not hold the image that was named
├── PushFailed       the registry or the engine refused
├── InstallFailed    pip could not fetch or install a package
├── StorageFailed    S3 refused, or could not be reached
└── UsageRefused     what was asked for does not fit the state of this machine or repository
"""

from __future__ import annotations

from stoker.errors import HostError


class EngineMissing(HostError):
    """No Docker engine answers."""


class EngineLost(HostError):
    """An engine stopped answering, or what it ran is gone: how the run ended is unknown."""


class EngineSilent(EngineLost):
    """The engine has not answered for too long; what it runs may be found when it does."""


class BuilderMissing(HostError):
    """An engine answers, but no client here can drive BuildKit."""


class BuildFailed(HostError):
    """The image could not be built."""


class ImageMissing(HostError):
    """The engine does not hold the image that was named."""


class PushFailed(HostError):
    """The registry or the engine refused."""


class InstallFailed(HostError):
    """pip could not fetch or install a package."""


class StorageFailed(HostError):
    """S3 refused, or could not be reached."""


class UsageRefused(HostError):
    """What was asked for does not fit the state of this machine or repository."""
