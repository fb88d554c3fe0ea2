"""Do the SageMaker packages of this environment go together?"""

from __future__ import annotations

from importlib import metadata

from stoker.host.doctor.finding import Finding, Machine

_PACKAGES = ("sagemaker", "sagemaker-core", "sagemaker-train")


def check(_machine: Machine) -> Finding:
    """SDK v2 wants sagemaker-core < 2, v3 wants more; both own the package `sagemaker`."""
    versions = read_versions()
    return judge(versions)


def read_versions() -> dict[str, str]:
    """The packages that are installed."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def judge(versions: dict[str, str]) -> Finding:
    """Whether such an environment can work."""
    shown = ", ".join(f"{name} {version}" for name, version in versions.items())
    major = {name: int(version.split(".")[0]) for name, version in versions.items()}
    is_v2 = major.get("sagemaker") == 2
    if is_v2 and (major.get("sagemaker-core", 1) >= 2 or "sagemaker-train" in major):
        return Finding(
            check="SDKs",
            level="problem",
            text=f"both SDKs share this environment: {shown}",
            fix="make one environment each: pip install 'sagemaker<3' | pip install sagemaker",
        )
    return Finding(check="SDKs", level="ok", text=shown or "not installed here, and not needed")
