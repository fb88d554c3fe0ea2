"""A stand-in for the drivers SDK v3 sends along: same places, same order, same needs."""

from __future__ import annotations

import io
import json
import tarfile
import textwrap

from stoker.conformance.opt_ml import OptMl

_FOLDER = "/opt/ml/input/data/sm_drivers"
COMMAND = f"chmod +x {_FOLDER}/sm_train.sh && {_FOLDER}/sm_train.sh"
"""What the SDK passes to `/bin/bash -c`."""

# The first line of the SDK's own script is empty too, so its shebang has no effect.
_SM_TRAIN = r"""
#!/bin/bash
set -e
python=$(command -v python3 || command -v python || true)
pip=$(command -v pip3 || command -v pip || true)
if [[ -z "$python" || -z "$pip" ]]; then
    echo "The Python executable was not found: python=$python pip=$pip"
    exit 1
fi
$python --version
cat /opt/ml/input/data/sm_drivers/sourcecode.json /opt/ml/input/data/sm_drivers/distributed.json
$python /opt/ml/input/data/sm_drivers/scripts/environment.py
source /opt/ml/input/sm_training.env
cd /opt/ml/input/data/code
if [ -f sourcedir.tar.gz ]; then tar --extract --gzip --file sourcedir.tar.gz; fi
$python /opt/ml/input/data/sm_drivers/distributed_drivers/basic_script_driver.py
"""

_ENVIRONMENT = """
import json, os, shlex

def config(name):
    with open(f"/opt/ml/input/config/{name}.json") as file:
        return json.load(file)

resources, parameters = config("resourceconfig"), config("hyperparameters")
variables = {
    "SM_HPS": json.dumps(parameters),
    "SM_CHANNELS": json.dumps(list(config("inputdataconfig"))),
    "SM_CURRENT_HOST": resources["current_host"],
    "SM_CURRENT_INSTANCE_TYPE": resources["current_instance_type"],
    "SM_NETWORK_INTERFACE_NAME": resources["network_interface_name"],
    "SM_JOB": os.environ["TRAINING_JOB_NAME"],
    **{f"SM_HP_{name.upper()}": text for name, text in parameters.items()},
}
with open("/opt/ml/input/sm_training.env", "w") as file:
    for name, text in variables.items():
        file.write(f"export {name}={shlex.quote(text)}\\n")
"""

_DRIVER = """
import json, os, subprocess, sys

with open("/opt/ml/input/data/sm_drivers/sourcecode.json") as file:
    script = json.load(file)["entry_script"]
arguments = [part for pair in json.loads(os.environ["SM_HPS"]).items() for part in pair]
arguments = [f"--{part}" if i % 2 == 0 else part for i, part in enumerate(arguments)]
sys.exit(subprocess.run([sys.executable, script, *arguments]).returncode)
"""


def add_drivers(opt_ml: OptMl, script: str, parameters: dict[str, str]) -> None:
    """Lays out a job as `ModelTrainer` does for a source_dir that is a .tar.gz."""
    source = {"entry_script": "probe.py", "command": None, "requirements": None, "args": None}
    for name, text in {
        "sm_train.sh": _SM_TRAIN,
        "sourcecode.json": json.dumps({**source, "source_dir": "source", "ignore_patterns": []}),
        "distributed.json": "{}",
        "scripts/environment.py": _ENVIRONMENT,
        "distributed_drivers/basic_script_driver.py": _DRIVER,
    }.items():
        opt_ml.write(f"input/data/sm_drivers/{name}", text)
    channel = {"TrainingInputMode": "File", "S3DistributionType": "FullyReplicated"}
    opt_ml.config("inputdataconfig", {"code": channel, "sm_drivers": channel})
    opt_ml.config("hyperparameters", parameters)
    # SDK v3 puts nothing into /opt/ml/code; a script there could run in place of the sent one.
    (opt_ml.root / "code" / "probe.py").unlink()
    _write_archive(opt_ml, script)


def _write_archive(opt_ml: OptMl, script: str) -> None:
    folder = opt_ml.root / "input/data/code"
    folder.mkdir(parents=True, exist_ok=True)
    content = textwrap.dedent(script).encode()
    member = tarfile.TarInfo("probe.py")
    member.size = len(content)
    with tarfile.open(folder / "sourcedir.tar.gz", "w:gz") as archive:
        archive.addfile(member, io.BytesIO(content))
