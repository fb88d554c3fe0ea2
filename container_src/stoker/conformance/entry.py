"""Group A: how the platform starts the image."""

from __future__ import annotations

import re

from stoker.conformance.check import Failed, NotApplicable, check, require
from stoker.conformance.lab import Lab, Ran
from stoker.conformance.script import Script
from stoker.conformance.sdk_drivers import COMMAND, add_drivers
from stoker.conformance.survey import shown, survey_image

_HELLO = Script(python="print('hello from the probe', flush=True)", sh="hello")
_FIRST_PROCESS = Script(
    python="print('PROBE main=' + open('/proc/1/comm').read().strip(), flush=True)",
    sh="first_process",
)
_USER = Script(
    python="import os; print('PROBE uid=%s' % os.getuid(), flush=True)",
    sh="user",
)
_INTERPRETER = Script(
    sh="interpreter",
    python="""
    import importlib.util, sys

    torch = "missing"
    if importlib.util.find_spec("torch"):
        torch = "installed"
        if sys.argv[1:] == ["two words"]:  # not under `train`: once is enough
            try:
                import torch as imported
                torch = imported.__version__
            except Exception as error:
                torch = "broken: %r" % error
    print("PROBE python=%s" % sys.executable)
    print("PROBE arguments=%s" % sys.argv[1:])
    print("PROBE torch=%s" % torch, flush=True)
    sys.exit(5)
""",
)
_DRIVEN = """
    import importlib.util, shutil, sys

    wanted = importlib.util.find_spec("torch") is not None
    torchrun = shutil.which("torchrun") or ("missing" if wanted else "not needed")
    print("PROBE torchrun=%s" % torchrun)
    print("PROBE arguments=%s" % sys.argv[1:], flush=True)
"""
# The field e_machine of the interpreter's own ELF header.
_MACHINE = Script(
    sh="machine",
    python="""
    import sys

    with open(sys.executable, "rb") as file:
        head = file.read(20)
    if head[:4] == b"\\x7fELF":
        print("PROBE machine=%d" % int.from_bytes(head[18:20], "little"), flush=True)
""",
)
# EM_X86_64 and EM_AARCH64 of elf.h.
_MACHINES = {"linux/amd64": "62", "linux/arm64": "183"}


@check(
    1,
    "`train` starts the job",
    group="entry",
    contract="The service runs `docker run IMAGE train`; `train` must be found and run.",
    source="guide",
    how="a script that prints a line, started with the argument `train`",
    fix="put an executable `train` on PATH (or an entrypoint that takes it as its argument)",
)
def train_starts_the_job(lab: Lab) -> str:
    ran = lab.run(lab.job(_HELLO))
    require(ran.code == 0, f"exit code {ran.code}: {ran.tail()}")
    require("hello from the probe" in ran.output, f"the script did not run: {ran.tail()}")
    return f"the script ran and the container ended with 0 after {ran.seconds:.1f} s"


@check(
    2,
    "PID 1 is the program, not a shell",
    group="entry",
    contract="ENTRYPOINT in exec form, so that the main process receives SIGTERM.",
    source="guide",
    how="the image's ENTRYPOINT is read, and /proc/1 is looked at from inside a job",
    fix='write ENTRYPOINT ["train"], and `exec` in every wrapper script',
)
def main_process_is_no_shell(lab: Lab) -> str:
    entrypoint = lab.inspect()["Config"].get("Entrypoint") or []
    # The engine turns a shell-form ENTRYPOINT into this list.
    require(entrypoint[:2] != ["/bin/sh", "-c"], f"ENTRYPOINT is in shell form: {entrypoint}")
    name = _probed(lab.run(lab.job(_FIRST_PROCESS))).get("main", "")
    require(name not in ("sh", "bash", "dash", "ash"), f"PID 1 is {name}")
    return f"PID 1 is {name or 'unknown'}, ENTRYPOINT is {entrypoint or 'not set'}"


@check(
    3,
    "Needs no init, and works under one",
    group="entry",
    contract="It is not specified whether an init is PID 1; the service has been seen with one.",
    source="seen, our choice",
    how="a script is run to its end, once as started and once with `docker run --init`",
    fix="start the program directly; let it forward signals and reap children itself",
    both_ways=True,
)
def works_with_and_without_an_init(lab: Lab) -> str:
    ran = lab.run(lab.job(_FIRST_PROCESS))
    seen = _probed(ran)
    require("main" in seen, f"the script did not run: {ran.tail()}")
    require(ran.code == 0, f"the script ended well, the container with {ran.code}: {ran.tail()}")
    return f"PID 1 was {seen['main']}; the script ran and the container ended with 0"


@check(
    4,
    "An entrypoint of the user's own works",
    group="entry",
    contract="ContainerEntrypoint and ContainerArguments replace ENTRYPOINT and CMD.",
    source="guide",
    how="`--entrypoint /bin/sh` runs Python; what it finds is compared to what `train` finds "
    "(without Python: a shell script and its PATH)",
    fix="set PATH and the like with ENV in the Dockerfile, not in an entrypoint script",
)
def own_entrypoint_works(lab: Lab) -> str:
    under_train = _probed(lab.run(lab.job(_INTERPRETER)))
    ran = _run_with_own_entrypoint(lab)
    seen = {"torch": "missing", **_probed(ran)} if _probed(ran) else {}
    if not seen and not under_train:
        raise NotApplicable("neither `train` nor a shell finds a Python to run a script with")
    require("python" in seen, f"Python is not found by an own entrypoint: {ran.tail()}")
    require(seen["arguments"] == "['two words']", f"arguments arrived as {seen['arguments']}")
    require(ran.code == 5, f"the script's exit code 5 became {ran.code}")
    require(
        seen["torch"] != "missing" or under_train.get("torch", "missing") == "missing",
        f"`train` has torch, but an own entrypoint gets {seen['python']} without it",
    )
    lost = [place for place in _path(under_train) if place not in _path(seen)]
    require(not lost, f"`train` has {', '.join(lost)} on PATH, an own entrypoint has not")
    require("broken" not in seen["torch"], f"torch cannot be imported: {seen['torch']}")
    torch = f", torch {seen['torch']}" if lab.language == "python" else ""
    return f"it ran {seen['python']}{torch}; arguments and exit code kept"


@check(
    5,
    "SDK v3's drivers run",
    group="entry",
    contract="SDK v3 bypasses `train`: bash runs its sm_train.sh, which needs python and pip.",
    source="SDK v3",
    how="a folder laid out as the SDK's sm_drivers, started as the SDK starts it",
    fix="install bash and tar, and put python3 and pip on PATH (torchrun too if there is torch)",
)
def sdk_drivers_run(lab: Lab) -> str:
    lab.require_python("SDK v3's drivers are Python programs")
    job = lab.job()
    add_drivers(job, _DRIVEN, {"epochs": "3"})
    ran = lab.run(job, "--entrypoint", "/bin/bash", command=("-c", COMMAND))
    seen = _probed(ran)
    require("arguments" in seen, f"the script did not run: {ran.tail()}")
    require(ran.code == 0, f"the script ended well, the container with {ran.code}: {ran.tail()}")
    require(seen["torchrun"] != "missing", "torch is installed, but torchrun is not on PATH")
    return f"the script ran with {seen['arguments']}, torchrun: {seen['torchrun']}"


@check(
    6,
    "Runs as root and reads its configuration",
    group="entry",
    contract="The container runs as root; input/config has been seen with mode drw-r--r--.",
    source="guide, seen",
    how="a job whose input/config has mode 644, as the image's own user and as an ordinary one",
    fix="leave USER at root; report files that cannot be read instead of continuing without them",
)
def reads_config_of_an_odd_mode(lab: Lab) -> str:
    job = lab.job(_USER)
    folder = job.root / "input/config"
    # Seen in the service. Root enters a folder without the x bit (CAP_DAC_OVERRIDE).
    folder.chmod(0o644)
    try:
        ran = lab.run(job)
        uid = _probed(ran).get("uid")
        require(ran.code == 0 and uid is not None, f"it did not run: {ran.tail()}")
        ordinary = lab.run(job, "--user", "65534:65534")
    finally:
        # Otherwise the lab could not remove it, unless it runs as root.
        folder.chmod(0o755)
    if ordinary.code == 0:
        require("PROBE uid" in ordinary.output, "without its configuration it ended with 0")
        return f"it ran as uid {uid}, and as an ordinary user too"
    words = ("permission", "denied", "root", "/opt/ml/input/config")
    require(
        any(word in ordinary.output.lower() for word in words),
        f"as an ordinary user it failed without naming the reason: {ordinary.tail()}",
    )
    return f"it ran as uid {uid}; an ordinary user gets a message about what cannot be read"


@check(
    7,
    "Needs nothing of its own below /opt/ml",
    group="entry",
    contract="/opt/ml and all below is reserved: what the image holds there may be hidden.",
    source="guide",
    how="the image's files are listed, then a job is run with a fresh folder over /opt/ml",
    fix="move programs, libraries and baked-in code out of /opt/ml, say to /opt/program",
)
def needs_nothing_below_opt_ml(lab: Lab) -> str:
    baked = survey_image(lab).of("baked")
    held = f"the image holds {shown(baked)}" if baked else "the image holds no file below /opt/ml"
    try:
        ran = lab.run(lab.job(_HELLO))
    except Failed as failure:
        raise Failed(f"{held}; with a fresh /opt/ml: {failure}") from None
    require("hello from the probe" in ran.output, f"{held}; with a fresh /opt/ml: {ran.tail()}")
    environ = dict(entry.split("=", 1) for entry in lab.inspect()["Config"].get("Env") or [])
    program = environ.get("SAGEMAKER_PROGRAM")
    # A program below /opt/ml is found by `docker run`, and hidden where the service mounts one.
    hidden = [path for path in baked if program and path.endswith(f"/{program}")]
    require(not hidden, f"SAGEMAKER_PROGRAM={program} is {shown(hidden)}, which may be hidden")
    return f"{held}; with a fresh folder in its place the job ran"


@check(
    8,
    "Brings no NVIDIA driver and starts without a GPU",
    group="entry",
    contract="Only the CUDA toolkit is in the image; the driver comes from the host.",
    source="guide",
    how="the image's files are searched for the driver, and a job is run without a GPU",
    fix="remove the driver's packages; with CUDA set NVIDIA_VISIBLE_DEVICES=all and "
    "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
)
def brings_no_driver(lab: Lab) -> str:
    survey = survey_image(lab)
    drivers = survey.of("driver")
    require(not drivers, f"parts of the driver are in the image: {shown(drivers)}")
    ran = lab.run(lab.job(_HELLO))
    require("hello from the probe" in ran.output, f"without a GPU: {ran.tail()}")
    environ = [entry.split("=", 1)[0] for entry in lab.inspect()["Config"].get("Env") or []]
    wanted = ("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")
    missing = [name for name in wanted if name not in environ]
    if not survey.of("cuda"):
        return "no driver and no CUDA in the image; the job ran without a GPU"
    require(not missing, f"CUDA is there, but the image does not set {' and '.join(missing)}")
    return f"CUDA but no driver in the image, {' and '.join(wanted)} are set"


@check(
    9,
    "Is built for the instance's architecture",
    group="entry",
    contract="linux/amd64 as a rule (arm64 on Graviton and Grace); a name of at most 255 letters.",
    source="API, seen",
    how="the image's label is read and compared to the programs that run in a job",
    fix="build with --platform linux/amd64; `exec format error` is the symptom of another one",
)
def is_built_for_the_instance(lab: Lab) -> str:
    # The API's limit for AlgorithmSpecification.TrainingImage.
    require(len(lab.image) <= 255, f"the image's name has {len(lab.image)} letters")
    image = lab.inspect()
    platform = f"{image['Os']}/{image['Architecture']}"
    require(platform in _MACHINES, f"it is built for {platform}")
    try:
        ran = lab.run(lab.job(_MACHINE))
    except Failed as failure:
        said = str(failure)
        require("exec format error" not in said.lower(), f"labelled {platform}, but: {said}")
        return f"{platform} by its label; no job could be started to compare"
    require("exec format error" not in ran.output.lower(), f"{platform}, but: {ran.tail()}")
    machine = _probed(ran).get("machine", _MACHINES[platform])
    require(machine == _MACHINES[platform], f"labelled {platform}, programs are for {machine}")
    return f"{platform}, by its label and by the programs in it"


def _run_with_own_entrypoint(lab: Lab) -> Ran:
    job = lab.job(_INTERPRETER)
    python = "$(command -v python3 || command -v python)"
    program = "/bin/sh" if lab.language == "sh" else python
    script = f'exec "{program}" "$0" "$@"'
    arguments = (f"/opt/ml/code/{job.program}", "two words")
    try:
        return lab.run(job, "--entrypoint", "/bin/sh", command=("-c", script, *arguments))
    except Failed:  # an image may do without a shell
        return lab.run(job, "--entrypoint", "python3", command=arguments)


def _path(seen: dict[str, str]) -> list[str]:
    """Where programs are looked for; told in an image without Python only."""
    return [place for place in seen.get("path", "").split(":") if place]


def _probed(ran: Ran) -> dict[str, str]:
    return dict(re.findall(r"PROBE (\w+)=(.*)", ran.output))
