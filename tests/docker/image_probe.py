"""Runs inside the image, with its own Python, and prints what it finds as one JSON line.

One container for all questions: starting one costs more than any answer. Standard library only;
what needs torch runs in a child process.
"""

import importlib.util
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

SKIPPED = {"/proc", "/sys", "/dev"}
PROGRAMS = ("bash", "chmod", "pip", "pip3", "ps", "python", "python3", "tar", "torchrun", "train")
COMPILERS = ("as", "c++", "cc", "clang", "cl", "g++", "gcc", "ld", "make", "nvcc", "tcc")
SECRET_NAMES = {
    ".aws",
    ".bash_history",
    ".docker",
    ".git",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".python_history",
    ".ssh",
    "credentials",
    "id_ed25519",
    "id_rsa",
    "pip.conf",
    "secrets",
}
CACHES = ("/root/.cache", "/var/cache/apt", "/var/lib/apt/lists", "/tmp", "/var/tmp", "/mnt")

HAS_TORCH = importlib.util.find_spec("torch") is not None

IMPORTS = """
import json
import boto3, sagemaker_training, smdebug, smdebug.profiler, stoker
import sagemaker_training.environment, tensorboard.main, torch_tb_profiler.plugin
import PIL, pkg_resources, tqdm, yaml
versions = {"smdebug": smdebug.__version__}
"""
TORCH_IMPORTS = """
import smdebug.pytorch, torch, torchvision
versions |= {"torch": torch.__version__, "cuda": torch.version.cuda}
versions["torchvision"] = torchvision.__version__
try:
    import sklearn.ensemble
    versions["sklearn"] = sklearn.__version__
except ModuleNotFoundError:
    versions["sklearn"] = None
print(json.dumps(versions))
"""
TENSORFLOW_IMPORTS = """
import h5py, keras, scipy.ndimage, tensorflow
versions |= {"tensorflow": tensorflow.__version__, "keras": keras.__version__}
versions["sklearn"] = None
print(json.dumps(versions))
"""

SMDEBUG = """
import json, tempfile
import smdebug.pytorch as smd, torch
from smdebug.trials import create_trial
torch.manual_seed(0)
folder = tempfile.mkdtemp() + "/tensors"
hook = smd.Hook(out_dir=folder, save_config=smd.SaveConfig(save_interval=1),
                include_collections=["weights", "gradients", "losses"])
model, loss_of = torch.nn.Linear(3, 2), torch.nn.MSELoss()
hook.register_module(model)
hook.register_loss(loss_of)
losses = []
for step in range(3):
    model.zero_grad()
    loss = loss_of(model(torch.ones(4, 3)), torch.zeros(4, 2))
    loss.backward()
    losses.append(float(loss))
hook.save_scalar("accuracy", 0.5, sm_metric=False)
hook.close()
trial = create_trial(folder)
loss_name, = trial.tensor_names(collection="losses")
weight_name, = trial.tensor_names(collection="weights")
saved_weight = trial.tensor(weight_name).value(0)
print(json.dumps({
    "written": losses,
    "read": [float(trial.tensor(loss_name).value(step)) for step in trial.steps()],
    "weight_equal": bool((saved_weight == model.weight.detach().numpy()).all()),
    "names": sorted(trial.tensor_names()),
}))
"""


def run(*argv):
    done = subprocess.run(argv, capture_output=True, text=True, timeout=240)
    return {"code": done.returncode, "out": done.stdout, "err": done.stderr}


def last_json(result):
    if result["code"] != 0:
        return {"error": result["err"][-2000:]}
    return json.loads(result["out"].strip().splitlines()[-1])


def every_file():
    for folder, names, files in os.walk("/"):
        names[:] = [name for name in names if os.path.join(folder, name) not in SKIPPED]
        for name in (*files, *names):
            yield os.path.join(folder, name)


def is_privileged(path):
    mode = os.lstat(path).st_mode
    return stat.S_ISREG(mode) and bool(mode & (stat.S_ISUID | stat.S_ISGID))


def without_bytecode():
    roots = ["/opt/venv/lib", "/usr/lib/python3", *map(str, Path("/usr/lib").glob("python3.*"))]
    sources = (path for root in roots for path in Path(root).rglob("*.py"))
    return [
        str(path)
        for path in sources
        if not os.path.exists(importlib.util.cache_from_source(str(path)))
    ]


def run_pip(*requirements):
    return run("pip", "install", "--dry-run", "--no-index", *requirements)


def main():
    paths = list(every_file())
    answers = {
        "programs": {name: shutil.which(name) for name in PROGRAMS},
        "compilers": [name for name in COMPILERS if shutil.which(name)],
        "privileged": [path for path in paths if is_privileged(path)],
        "static_libraries": [path for path in paths if path.endswith(".a")],
        "secret_names": [path for path in paths if os.path.basename(path) in SECRET_NAMES],
        "caches": {folder: os.listdir(folder) for folder in CACHES if os.path.isdir(folder)},
        "bytecode_missing": without_bytecode(),
        "environment": dict(os.environ),
        "cwd": os.getcwd(),
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "constraints": Path("/opt/stoker/constraints.txt").read_text(),
        "sbom": json.loads(Path("/opt/stoker/sbom.cdx.json").read_text()),
        "bash_env_readable": os.access("/opt/stoker/bash_env.sh", os.R_OK),
        "pip_check": run("pip", "check"),
        "pip_other_torch": run_pip("torch==2.10.0"),
        "pip_smdebug": run_pip("smdebug"),
        "pip_same_smdebug": run_pip("smdebug==1.0.34"),
        "pip_old_protobuf": run_pip("protobuf==4.25.9"),
    }
    imports = IMPORTS + (TORCH_IMPORTS if HAS_TORCH else TENSORFLOW_IMPORTS)
    answers["imports"] = last_json(run(sys.executable, "-c", imports))
    if HAS_TORCH:
        answers["smdebug"] = last_json(run(sys.executable, "-c", SMDEBUG))
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
