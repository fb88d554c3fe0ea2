"""One line of advice for the failures everybody meets, on texts as they were printed."""

from __future__ import annotations

import pytest

from stoker.runtime.hints import find_hint, find_install_fix

RECORDED = {
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
    "capacity of 14.58 GiB of which 5.56 MiB is free.": "GPU ran out of memory",
    "RuntimeError: CUDA error: out of memory": "GPU ran out of memory",
    "RuntimeError: DataLoader worker (pid 41) is killed by signal: Bus error. It is possible that "
    "dataloader's workers are out of shared memory.": "shared memory",
    "RuntimeError: unable to open shared memory object </torch_41_2> in read-write mode: No space "
    "left on device (28)": "shared memory",
    "RuntimeError: unable to write to file </torch_41_2>: No space left on device (28)": (
        "shared memory"
    ),
    "RuntimeError: unable to allocate shared memory(shm) for file </torch_41_2>: Success (0)": (
        "shared memory"
    ),
    "OSError: [Errno 28] No space left on device: '/opt/ml/checkpoints/3.pt'": "disk is full",
    "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2251, unhandled "
    "system error, NCCL version 2.26.2\nncclSystemError: System call": "first rank that ended",
    "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, "
    "Timeout(ms)=600000)": "first rank that ended",
    "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while "
    "trying to connect to (algo-1, 7777).": "another host",
    "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:1": (
        "another host"
    ),
    "RuntimeError: [enforce fail at alloc_cpu.cpp:119] err == 0. DefaultCPUAllocator: can't "
    "allocate memory: you tried to allocate 4000000000 bytes.": "host ran out of memory",
    "numpy.core._exceptions._ArrayMemoryError: MemoryError": "host ran out of memory",
    "ModuleNotFoundError: No module named 'einops'": "add einops to requirements.txt",
    "ModuleNotFoundError: No module named 'torchaudio'": "torchaudio==2.11.0+cpu",
    "ModuleNotFoundError: No module named 'sagemaker_containers'": "sagemaker_training",
    "ValueError: Error initializing torch.distributed using env:// rendezvous: environment "
    "variable RANK expected, but not set": "expects torchrun",
    "KeyError: 'LOCAL_RANK'": "expects torchrun",
    "urllib.error.URLError: <urlopen error [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify "
    "failed: self-signed certificate in certificate chain (_ssl.c:1006)>": "PIP_CERT",
    "ModuleNotFoundError: No module named 'tensorflow'": "KERAS_BACKEND=torch",
    "ModuleNotFoundError: No module named 'torch'": "stoker:cpu",
    "ValueError: Invalid filepath extension for saving. Please add either a `.keras` extension "
    "for the native Keras format (recommended) or a `.h5` extension. Use `model.export(filepath)` "
    "if you want to export a SavedModel for use with TFLite/TFServing/etc. Received: "
    "filepath=/opt/ml/model/1.": "model.export('/opt/ml/model/1')",
    "ValueError: File format not supported: filepath=/opt/ml/model/1. Keras 3 only supports V3 "
    "`.keras` files and legacy H5 format files (`.h5` extension).": "TFSMLayer",
    "ModuleNotFoundError: No module named 'torchtext'": "ended with torch 2.3",
    "ModuleNotFoundError: No module named 'smdistributed'": "torch_distributed",
    "ModuleNotFoundError: No module named 'sagemaker.session'": "'sagemaker<3'",
    "ModuleNotFoundError: No module named 'sagemaker.train.model_trainer'": "'sagemaker>=3'",
    "ImportError: cannot import name 'runtime_version' from 'google.protobuf' (/opt/venv/lib/"
    "python3.11/site-packages/google/protobuf/__init__.py)": "older protobuf",
    "ModuleNotFoundError: No module named 'pkg_resources'": "setuptools<82",
    "ModuleNotFoundError: No module named 'hydra'": "add hydra-core to",
    "RuntimeError: operator torchvision::nms does not exist": "CPU build of torchvision",
    "AttributeError: '_OpNamespace' 'torchvision' object has no attribute 'nms'": "stoker:cuda",
    "OSError: libcudart.so.13: cannot open shared object file: No such file or directory": (
        "built for CUDA"
    ),
    "urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>": (
        "TORCH_HOME"
    ),
    "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='x.org'): Max retries "
    "exceeded with url: /cora.tgz (Caused by NameResolutionError(\"HTTPSConnection(host='x.org', "
    "port=443): Failed to resolve 'x.org'\"))": "data sets as a channel",
    "train.py: error: unrecognized arguments: --lr 0.1": "do not fit the script's arguments",
    "train.py: error: argument --epochs: invalid int value: '3.5'": "do not fit the script's",
    "train.py: error: the following arguments are required: --data": "do not fit the script's",
}


@pytest.mark.parametrize("text", RECORDED)
def test_a_known_failure_gets_its_advice(text):
    hint = find_hint(text, channels=[], out_of_memory=False)
    assert RECORDED[text] in hint
    assert "\n" not in hint


def test_a_missing_channel_names_those_there_are():
    text = "KeyError: 'SM_CHANNEL_VALIDATION'"
    hint = find_hint(text, channels=["train", "test"], out_of_memory=False)
    assert "no channel 'validation', but: train, test" in hint
    assert "but: none" in find_hint(text, channels=[], out_of_memory=False)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ValueError: shapes (3, 4) and (5,) not aligned",
        "AssertionError",
        "FileNotFoundError: [Errno 2] No such file or directory: '/opt/ml/input/data/train/x.pt'",
        "KeyError: 'lr'",
        "AttributeError: module 'columbus' has no attribute 'errors'",
    ],
)
def test_an_ordinary_mistake_gets_no_advice(text):
    assert find_hint(text, channels=["train"], out_of_memory=False) == ""


def test_the_kernels_word_counts_where_the_text_says_nothing():
    assert "host ran out of memory" in find_hint("", channels=[], out_of_memory=True)
    hint = find_hint("CUDA out of memory", channels=[], out_of_memory=True)
    assert "GPU ran out of memory" in hint


def test_an_unset_channel_is_named_when_none_was_taken_for_a_path():
    text = "TypeError: expected str, bytes or os.PathLike object, not NoneType"
    source = "add('--train', default=os.environ.get('SM_CHANNEL_TRAIN'))\n"
    source += "add('--test', default=os.environ.get('SM_CHANNEL_MY_TEST'))\n"

    def hint(*channels):
        return find_hint(text, channels=channels, out_of_memory=False, sources=[source])

    assert "no channel 'my_test', but: train" in hint("train")
    assert hint("train", "my-test") == ""


def test_without_the_image_torch_is_not_a_matter_of_requirements():
    text = "ModuleNotFoundError: No module named 'torch'"
    hint = find_hint(text, channels=[], out_of_memory=False, is_image=False)
    assert "requirements.txt" not in hint
    assert "pip install torch where the platform runs" in hint


CONSTRAINTS = "torch==2.13.0+cpu\nsmdebug==1.0.34+stoker2\nprotobuf>=6.31.1,<8\n"
CONFLICT = """
ERROR: Cannot install torch==2.1.0 because these package versions have conflicting dependencies.

The conflict is caused by:
    The user requested torch==2.1.0
    The user requested (constraint) torch==2.13.0+cpu
"""
DEPENDENT = """
The conflict is caused by:
    fastai 2.7.10 depends on torch<1.14 and >=1.7
    The user requested (constraint) torch==2.13.0+cpu
"""
RANGE = """
The conflict is caused by:
    mlflow 2.13.2 depends on protobuf<5 and >=3.12.0
    The user requested (constraint) protobuf<8,>=6.31.1
"""
UNFINDABLE = """
ERROR: Could not find a version that satisfies the requirement smdebug==0.5.0 (from versions: none)
ERROR: No matching distribution found for smdebug==0.5.0
"""
BACKTRACKED = """
INFO: pip is looking at multiple versions of datasets to determine which version is compatible
ERROR: Failed to build 'pyarrow' when getting requirements to build wheel
"""
CERTIFICATE = """
WARNING: Retrying after connection broken by 'SSLError(SSLCertVerificationError(1, '[SSL:
CERTIFICATE_VERIFY_FAILED] certificate verify failed'))': /simple/einops/
"""


@pytest.mark.parametrize(
    ("said", "fix"),
    [
        (CONFLICT, "delete the line of torch from requirements.txt: the image has torch 2.13.0"),
        (UNFINDABLE, "delete the line of smdebug from requirements.txt: the image has smdebug 1."),
        (DEPENDENT, "fastai 2.7.10 is not compatible with torch 2.13.0+cpu"),
        (RANGE, "mlflow 2.13.2 is not compatible with protobuf <8,>=6.31.1"),
        (BACKTRACKED, "older versions of datasets"),
        (CERTIFICATE, "PIP_CERT"),
        ("ERROR: no such option: --foo", ""),
    ],
    ids=["pin", "unfindable pin", "dependent", "range", "backtracked", "certificate", "other"],
)
def test_a_pip_that_failed_gets_the_right_fix(said, fix):
    found = find_install_fix(said, CONSTRAINTS)
    assert fix in found
    assert bool(fix) == bool(found)
