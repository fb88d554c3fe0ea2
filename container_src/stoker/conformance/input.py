"""Group B: what the platform gives: hyperparameters, hosts and the environment."""

from __future__ import annotations

import argparse
import json
import math
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from stoker.conformance.check import Failed, check, require
from stoker.conformance.lab import Container, Lab
from stoker.conformance.opt_ml import OptMl, make_resources
from stoker.conformance.probe import TELL_ENVIRONMENT, read_told
from stoker.conformance.script import Script

_MISSING = object()
Fits = Callable[[str], bool]


def _is(*texts: str) -> Fits:
    return lambda text: text in texts


def _number(value: float) -> Fits:
    def fits(text: str) -> bool:
        try:
            found = float(text)
        except ValueError:
            return False
        return found == value or (math.isnan(found) and math.isnan(value))

    return fits


# Name → text in hyperparameters.json, what the script's argument may be. AWS's two launchers
# spell some of them differently; both spellings are fine, a third one breaks scripts.
_MATRIX: dict[str, tuple[str, Fits]] = {
    "epochs": ("3", _is("3")),
    "lr": ("1e-4", _number(1e-4)),
    "negative": ("-0.5", _number(-0.5)),
    "bare": ("adam", _is("adam")),
    "quoted": ('"adam"', _is("adam")),
    "yes": ("true", _is("True", "true")),
    "no": ("false", _is("False", "false")),
    "nothing": ("null", _is("", "null", "None")),
    "version": ('"1.10"', _is("1.10")),
    "number": ("1.10", _is("1.1", "1.10")),
    "zeros": ("007", _is("007")),
    "list": ('[1, "a"]', _is("[1, 'a']", '[1, "a"]', '[1,"a"]')),
    "map": ('{"a": 1, "c": "x"}', _is("a=1,c=x", '{"a": 1, "c": "x"}', '{"a":1,"c":"x"}')),
    "infinite": ("Infinity", _number(math.inf)),
    "nan": ("NaN", _number(math.nan)),
    "batch-size": ("32", _is("32")),
    "d": ("5", _is("5")),
    "empty": ("", _is("")),
    "unicode": ("Grüße, 東京 🚂", _is("Grüße, 東京 🚂")),
    "quotes": ('say "hi"', _is('say "hi"')),
    "apostrophe": ("it's", _is("it's")),
    "lines": ("one\ntwo", _is("one\ntwo")),
    "shell": ("$HOME `id`; exit 1 #", _is("$HOME `id`; exit 1 #")),
}


@check(
    10,
    "Hyperparameters reach the script",
    group="input",
    contract="hyperparameters.json is a flat map of texts; the script gets each as "
    "`--name value`, decoded where it is JSON, and none of the reserved `sagemaker_*` keys.",
    source="toolkit and SDK v3, measured; every script with argparse relies on it",
    how=f"what argparse makes of {len(_MATRIX)} kinds of values: numbers, quoted and bare "
    "texts, true, null, lists, unicode, quotes, line breaks; then an empty file",
    fix="decode each value with json.loads, keep the text where that fails, and pass an argv "
    "list, never a shell line; leave out every key that begins with sagemaker_",
)
def hyperparameters_reach_the_script(lab: Lab) -> str:
    sent = {name: text for name, (text, _) in _MATRIX.items()}
    full = lab.job(TELL_ENVIRONMENT, hyperparameters={**sent, "sagemaker_job_name": '"job-1"'})
    empty = lab.job(TELL_ENVIRONMENT)
    empty.config("hyperparameters", {})
    # With an empty file nothing names the script but this variable.
    runs = [lab.start(full), lab.start(empty, environ={"SAGEMAKER_PROGRAM": empty.program})]
    known, unknown = _parse(read_told(runs[0], full)["argv"], list(_MATRIX))
    wrong = [
        f"{name}: {text!r} arrived as {known.get(name)!r}"
        for name, (text, fits) in _MATRIX.items()
        if name not in known or not fits(known[name])
    ]
    require(not wrong, f"{len(wrong)} of {len(_MATRIX)} values are wrong: {'; '.join(wrong)}")
    require(not unknown, f"arguments that were not asked for: {unknown}")
    told = read_told(runs[1], empty, "with an empty hyperparameters.json")
    require(not told["argv"], f"arguments out of an empty hyperparameters.json: {told['argv']}")
    return f"all {len(_MATRIX)} values arrived, and none out of an empty file"


class _Parser(argparse.ArgumentParser):
    """One that does not end our own program."""

    def error(self, message: str) -> NoReturn:
        raise Failed(f"a script with argparse would say: {message}")


def _parse(argv: list[str], names: list[str]) -> tuple[dict[str, str], list[str]]:
    """What a script as people write them would make of its arguments, and what is left."""
    parser = _Parser(allow_abbrev=False, add_help=False)
    for name in names:
        # One-letter names are taken with one dash (toolkit) and two (SDK v3).
        spelt = [f"-{name}", f"--{name}"] if len(name) == 1 else [f"--{name}"]
        parser.add_argument(*spelt, dest=name, default=argparse.SUPPRESS)
    known, unknown = parser.parse_known_args(argv)
    return vars(known), unknown


_LONGEST = 2500  # the service's limit of a value
_MOST = 100  # the service's limit of a job


@check(
    11,
    "The largest legal hyperparameters start",
    group="input",
    contract=f"A job may have {_MOST} hyperparameters of {_LONGEST} characters each, and starts.",
    source="API limits",
    how=f"{_MOST} hyperparameters, as many as possible {_LONGEST} characters long; the script "
    "counts what it was given",
    fix="leave out a JSON copy (SM_HPS, SM_USER_ARGS, SM_TRAINING_ENV) of 128 KiB or more: the "
    "kernel refuses a longer text; start no helper with that environment",
)
def largest_hyperparameters_start(lab: Lab) -> str:
    count = _MOST - 2  # the other two name the script and its folder
    sent = {f"p{n:02}": "x" * _LONGEST for n in range(count)}
    job = lab.job(TELL_ENVIRONMENT, hyperparameters=sent)
    known, _ = _parse(read_told(lab.start(job), job)["argv"], list(sent))
    whole = sum(len(text) == _LONGEST for text in known.values())
    require(whole == count, f"{whole} of {count} values arrived whole")
    return f"the script ran with {count} arguments of {_LONGEST} characters"


@check(
    13,
    "Every form of resourceconfig.json",
    group="input",
    contract="1 to many hosts, sorted as text (algo-10 before algo-2); several instance groups; "
    "local mode writes only current_host, hosts and an interface that may not exist.",
    source="guide; SDK local mode",
    how="one host in the minimal form, 3 hosts, and 11 hosts in two groups; the script compares "
    "SM_HOSTS and SM_CURRENT_HOST with the file",
    fix="take defaults for what is not in the file, and the hosts in the order of the file",
)
def every_form_of_resourceconfig(lab: Lab) -> str:
    # As text, as the service does: algo-1, algo-10, algo-11, algo-2.
    eleven = sorted(f"algo-{n}" for n in range(1, 12))
    groups = make_resources("algo-1", eleven)
    groups["instance_groups"] = [
        {"instance_group_name": "cpus", "instance_type": "ml.m5.large", "hosts": eleven[:4]},
        {"instance_group_name": "gpus", "instance_type": "ml.g5.xlarge", "hosts": eleven[4:]},
    ]
    groups["current_group_name"] = "cpus"
    minimal = {"hosts": ["algo-1"], "current_host": "algo-1", "network_interface_name": "ethwe"}
    three = make_resources("algo-1", ["algo-1", "algo-2", "algo-3"])
    forms: dict[str, dict[str, Any]] = {}
    forms |= {"the minimal form": minimal, "3 hosts": three, "11 hosts in 2 groups": groups}
    jobs = {name: lab.job(TELL_ENVIRONMENT, resources=form) for name, form in forms.items()}
    # Every host is known at once: waiting for them is another check.
    known = [f"--add-host={host}:127.0.0.1" for host in eleven[1:]]
    runs = {name: lab.start(job, *known) for name, job in jobs.items()}
    for name, form in forms.items():
        environ = read_told(runs[name], jobs[name], name)["environ"]
        hosts, current = environ.get("SM_HOSTS", ""), environ.get("SM_CURRENT_HOST")
        require(_parsed(hosts) == form["hosts"], f"{name}: SM_HOSTS is {hosts!r}")
        require(current == "algo-1", f"{name}: SM_CURRENT_HOST is {current!r}")
    return f"the script ran and saw its hosts with {', '.join(forms)}"


_SILENCE_SECONDS = 20.0
# A host that has ended is unknown to the network: it stays until the other one runs too.
# It tells so by a file: some launchers hold lines back.
_RUNS = "output/data/runs"
_STAY = Script(
    sh="stay",
    python=f"""
import os, time
open("/opt/ml/{_RUNS}", "w").close()
deadline = time.time() + 100
while not os.path.exists("/opt/ml/input/data/go") and time.time() < deadline:
    time.sleep(0.1)
""",
)
_SPEAKS = re.compile(r"\bwait|retry|resolv|\bdns\b|reachable|not (yet )?known", re.I)


@check(
    14,
    "Peers may come late",
    group="input",
    contract="The hosts of a job do not start in the same second and their names resolve late: "
    "wait for them, say so, and do not give up at once.",
    source="guide (the hosts' DNS); without a log line, waiting looks like hanging",
    how="two containers on one network; the second is started when the first has said that it "
    f"waits, or after {_SILENCE_SECONDS:.0f} s",
    fix="retry the look-up with a limit, and print a line that names the missing hosts",
    limit_seconds=120,
)
def peers_may_come_late(lab: Lab) -> str:
    network, hosts = lab.network(), ["algo-1", "algo-2"]
    jobs = {host: lab.job(_STAY, resources=make_resources(host, hosts)) for host in hosts}

    def start(host: str) -> Container:
        options = ("--network", network, "--network-alias", host, "--hostname", host)
        return lab.start(jobs[host], *options)

    first = start("algo-1")
    did = _watch_alone(first, jobs["algo-1"])
    runs = {"algo-1": first, "algo-2": start("algo-2")}
    for host, container in runs.items():
        running = container.wait_until((jobs[host].root / _RUNS).exists, 45)
        require(running, f"the script of {host} never ran: {container.logs().strip()[-400:]}")
    for host, container in runs.items():
        jobs[host].write("input/data/go", "")
        ran = container.wait()
        require(ran.code == 0, f"{host} ended with {ran.code}: {ran.tail(400)}")
    require(
        did != "", f"algo-1 waited {_SILENCE_SECONDS:.0f} s for algo-2 without a word about it"
    )
    return did


def _watch_alone(container: Container, opt_ml: OptMl) -> str:
    """What the first host does while the second is missing; nothing when it waits in silence."""
    deadline = time.monotonic() + _SILENCE_SECONDS
    while time.monotonic() < deadline:
        said = container.logs()
        if (opt_ml.root / _RUNS).exists():
            return "the script was started without waiting for the other host"
        line = next((line for line in said.splitlines() if _SPEAKS.search(line)), "")
        if line:
            return f"the first host said: {line.strip()[:200]}"
        if not container.is_running():
            raise Failed(f"algo-1 gave up at once, without algo-2: {said.strip()[-400:]}")
        time.sleep(0.2)
    return ""


_ENTRIES = {
    "PROBE_LINES": "one\ntwo\n three",
    "PROBE_EQUALS": "a=b=c",
    "PROBE_QUOTES": 'it\'s "so" \\ $HOME `id`',
    "PROBE_UNICODE": "Grüße, 東京 🚂",
    # The API's limit for a value of Environment.
    "PROBE_LONG": "x" * 512,
    "PROBE_EMPTY": "",
    "PROBE_SPACES": "  both ends  ",
    "probe_lower": "1",
}


@check(
    21,
    "The job's environment is unchanged",
    group="input",
    contract="TRAINING_JOB_NAME, TRAINING_JOB_ARN and every entry of the request's Environment "
    "reach the script as they were sent, line breaks and `=` included.",
    source="guide, API",
    how="entries with line breaks, equals signs, quotes, unicode, 512 characters and none",
    fix="hand the launcher's own environment on; never write it into a shell script",
)
def environment_is_unchanged(lab: Lab) -> str:
    job = lab.job(TELL_ENVIRONMENT)
    arn = "arn:aws:sagemaker:us-east-1:111111111111:training-job/probe"
    sent = {**_ENTRIES, "TRAINING_JOB_NAME": "probe", "TRAINING_JOB_ARN": arn}
    environ = read_told(lab.start(job, environ=sent), job)["environ"]
    wrong = [
        f"{name}: {text!r} arrived as {environ.get(name)!r}"
        for name, text in sent.items()
        if environ.get(name) != text
    ]
    require(not wrong, "; ".join(wrong))
    return f"{len(sent)} entries arrived as they were sent"


_PATHS = {
    "SM_MODEL_DIR": "/opt/ml/model",
    "SM_INPUT_DIR": "/opt/ml/input",
    "SM_INPUT_CONFIG_DIR": "/opt/ml/input/config",
    "SM_OUTPUT_DIR": "/opt/ml/output",
    "SM_OUTPUT_DATA_DIR": "/opt/ml/output/data",
    "SM_OUTPUT_INTERMEDIATE_DIR": "/opt/ml/output/intermediate",
    "SM_CHANNEL_TRAIN": "/opt/ml/input/data/train",
    "SM_CURRENT_HOST": "algo-1",
    "SM_NETWORK_INTERFACE_NAME": "eth0",
    "SM_CURRENT_INSTANCE_TYPE": "ml.m5.large",
    "SM_CURRENT_INSTANCE_GROUP": "homogeneousCluster",
    "SM_HP_EPOCHS": "3",
    "SM_HP_OPTIMIZER": "adam",
}
_JSON: dict[str, object] = {
    "SM_CHANNELS": ["train"],
    "SM_HOSTS": ["algo-1"],
    "SM_INSTANCE_GROUPS": ["homogeneousCluster"],
    "SM_CURRENT_INSTANCE_GROUP_HOSTS": ["algo-1"],
    "SM_IS_HETERO": False,
    "SM_USER_ARGS": ["--epochs", "3", "--optimizer", "adam"],
}
_JSON_KEYS = {
    "SM_HPS": {"epochs", "optimizer"},
    "SM_INPUT_DATA_CONFIG": {"train"},
    "SM_RESOURCE_CONFIG": {"hosts", "current_host"},
    "SM_INSTANCE_GROUPS_DICT": {"homogeneousCluster"},
    "SM_TRAINING_ENV": {
        *("channel_input_dirs", "current_host", "hosts", "hyperparameters", "input_data_config"),
        *("is_master", "model_dir", "num_cpus", "num_gpus", "output_data_dir", "resource_config"),
    },
}
_NAMES = ("SM_USER_ENTRY_POINT", "SM_MODULE_NAME")
_INTEGERS = ("SM_NUM_CPUS", "SM_NUM_GPUS", "SM_NUM_NEURONS", "SM_LOG_LEVEL")
_JUST_THERE = (
    *("SM_DISTRIBUTION_INSTANCE_GROUPS", "SM_MODULE_DIR"),
    *("SM_FRAMEWORK_MODULE", "SM_FRAMEWORK_PARAMS"),
)


@check(
    24,
    "The SM_* variables are there",
    group="input",
    contract="Scripts written for SageMaker read their folders, channels, hosts and "
    "hyperparameters from SM_* variables.",
    source="toolkit 5.1.4, what its `train` sets",
    how="the script's environment is compared with the list, name by name and value by value",
    fix="set the variables named here; more of them are welcome",
)
def sm_variables_are_there(lab: Lab) -> str:
    channels = {"train": {"TrainingInputMode": "File", "S3DistributionType": "FullyReplicated"}}
    sent = {"epochs": "3", "optimizer": '"adam"'}
    job = lab.job(TELL_ENVIRONMENT, hyperparameters=sent, channels=channels)
    job.write("input/data/train/part.csv", "1,2\n")
    environ = read_told(lab.start(job), job)["environ"]
    names = (*_PATHS, *_NAMES, *_JSON, *_JSON_KEYS, *_INTEGERS, *_JUST_THERE)
    missing = [name for name in names if name not in environ]
    require(not missing, f"{len(missing)} of {len(names)} are missing: {', '.join(missing)}")
    # The toolkit's SM_MODULE_NAME drops the ending `.py`, and no other one.
    program = {"SM_USER_ENTRY_POINT": {job.program}, "SM_MODULE_NAME": {"probe", job.program}}
    wrong = [
        f"{name}={environ[name][:80]!r}"
        for name in names
        if not (environ[name] in program[name] if name in program else _is_right(name, environ))
    ]
    require(not wrong, f"set, but to something else: {'; '.join(wrong)}")
    return f"all {len(names)} are there, among {sum(n.startswith('SM_') for n in environ)} SM_*"


def _is_right(name: str, environ: Mapping[str, str]) -> bool:
    text = environ[name]
    if name in _PATHS:
        return text == _PATHS[name]
    if name in _JSON:
        return bool(_parsed(text) == _JSON[name])
    if name in _JSON_KEYS:
        found = _parsed(text)
        return isinstance(found, dict) and _JSON_KEYS[name] <= found.keys()
    return name in _JUST_THERE or text.isdigit()


def _parsed(text: str) -> Any:  # noqa: ANN401 - JSON is any of six types
    try:
        return json.loads(text)
    except ValueError:
        return _MISSING
