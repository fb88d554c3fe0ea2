"""One line of advice for common failures."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_CPU_INDEX = "--extra-index-url https://download.pytorch.org/whl/cpu"
_OOM = "the host ran out of memory: use a larger instance, a smaller batch or fewer workers"

# (what the text holds, what to do). The first match wins, so particular texts come first.
_HINTS: tuple[tuple[str, str], ...] = (
    (
        r"CUDA out of memory|torch\.OutOfMemoryError|CUDA error: out of memory|cuda.*alloc failed",
        "the GPU ran out of memory: use a smaller batch, gradient accumulation, mixed precision "
        "or a larger GPU",
    ),
    (
        r"bus error|insufficient shared memory|shared memory object|shared memory\(shm\)|"
        r"unable to (?:open|write to|mmap)[^\n]{0,60}/torch_|/dev/shm|torch_shm",
        "shared memory (/dev/shm) is too small for the DataLoader's workers: num_workers=0, "
        "torch.multiprocessing.set_sharing_strategy('file_system'), or a larger --shm-size "
        "(local mode has 64 MB)",
    ),
    (
        r"No space left on device|Errno 28|ENOSPC|Disk quota exceeded",
        "the disk is full: raise volume_size, delete old checkpoints, or write less",
    ),
    (
        r"ncclUnhandledCudaError|ncclSystemError|ncclRemoteError|NCCL (?:error|timeout)|"
        r"Watchdog caught collective operation timeout|ncclInternalError",
        "a collective operation failed: look for the first rank that ended; NCCL_DEBUG=INFO tells "
        "more; check security groups and NCCL_SOCKET_IFNAME",
    ),
    (
        r"Connect(?:ion)? (?:reset|closed|refused) by peer|Gloo connect|RendezvousTimeout|"
        r"DistStoreError|DistNetworkError|client socket has timed out",
        "another host ended or cannot be reached: look at its log first",
    ),
    (
        r"variable (?:\w+_)?(?:RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT) expected, but not set|"
        r"KeyError: '(?:LOCAL_|NODE_|GROUP_)?(?:RANK|WORLD_SIZE)'",
        "the script expects torchrun: start it with distribution="
        '{"torch_distributed": {"enabled": True}} (SDK v3: distributed=Torchrun())',
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|SSLCertVerificationError|self[- ]signed certificate|"
        r"unable to get local issuer certificate",
        "a certificate is not trusted, as behind a proxy that replaces certificates. On the local "
        "platform: set SSL_CERT_FILE to this machine's CA bundle and start the platform again. "
        "Elsewhere: bring the bundle with the code or the image and name it in PIP_CERT, "
        "REQUESTS_CA_BUNDLE, SSL_CERT_FILE and AWS_CA_BUNDLE",
    ),
    (
        r"(?:MemoryError|DefaultCPUAllocator: (?:can't|not enough)|Cannot allocate memory|"
        r"std::bad_alloc)",
        _OOM,
    ),
    (
        r"operator torchvision::\w+ does not exist|'_OpNamespace' 'torchvision' object has no",
        "torchvision is here without its compiled operators: use the CUDA image (stoker:cuda), "
        f"which runs on a CPU too, or a CPU build of torchvision (pip's option {_CPU_INDEX})",
    ),
    (
        r"lib(?:cudart|c10_cuda|torch_cuda)[\w.]*: cannot open shared object file",
        "a package was built for CUDA and this torch was not: take the package's CPU build "
        f"(in requirements.txt: {_CPU_INDEX}), or use the CUDA image (stoker:cuda)",
    ),
    (
        r"cannot import name 'runtime_version' from 'google\.protobuf'",
        "a package in requirements.txt brought an older protobuf than TensorBoard works with: "
        "take a newer version of that package (mlflow: 3), or add protobuf>=6.31.1",
    ),
    (
        r"Invalid filepath extension for saving",
        "Keras 3 saves to a file: model.save('…/model.keras'). The SavedModel folder that "
        "TensorFlow Serving reads is made by model.export('/opt/ml/model/1')",
    ),
    (
        r"File format not supported[^\n]*\n?[^\n]*Keras 3 only supports",
        "Keras 3 cannot load a SavedModel folder as a model: keras.layers.TFSMLayer(folder, "
        "call_endpoint='serving_default') uses it for inference; to train on, save it as .keras",
    ),
    (
        r"(?:urlopen error|NameResolutionError|NewConnectionError)[^\n]*"
        r"(?:name resolution|Name or service not known|Failed to resolve|unreachable)",
        "this container cannot reach that address: pass data sets as a channel; pretrained "
        "weights, too, with TORCH_HOME set to the channel's folder",
    ),
)
_MISSING_MODULE = re.compile(r"No module named '([\w.]+)'")
# Modules whose package has another name.
_PACKAGES = {
    "PIL": "pillow",
    "cv2": "opencv-python-headless",
    "hydra": "hydra-core",
    "nlp": "datasets (the new name of nlp)",
    "pkg_resources": "'setuptools<82' (later ones are without pkg_resources)",
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "yaml": "pyyaml",
}
_NO_TORCH = (
    "this image has TensorFlow and no PyTorch: name the image stoker:cpu or stoker:cuda instead"
)
# Modules that a plain line in requirements.txt does not bring.
_NOT_BY_PIP = {
    "sagemaker_containers": "sagemaker_containers is replaced by sagemaker_training (from "
    "sagemaker_training import environment), or read the SM_* variables",
    "smdistributed": "smdistributed is only in AWS's own images: use torch.distributed, started "
    'by distribution={"torch_distributed": {"enabled": True}}',
    "tensorflow": "this image has PyTorch: run TensorFlow in the image stoker:tensorflow (stoker "
    "build --flavor tensorflow). Keras alone also runs here: keras in requirements.txt, import "
    "keras instead of tensorflow.keras, and the environment variable KERAS_BACKEND=torch",
    "torch": _NO_TORCH,
    "torchvision": _NO_TORCH,
    "torchaudio": f"add to requirements.txt: {_CPU_INDEX} and torchaudio==2.11.0+cpu (in the CUDA "
    "image just torchaudio: the build on the public index needs CUDA)",
    "torchtext": "torchtext ended with torch 2.3 and does not load with this version: use another "
    "tokenizer, such as the package tokenizers",
}
# What an image brings: without an image it is not a matter of requirements.txt.
_OF_THE_IMAGE = (
    *("torch", "torchvision", "tensorflow"),
    *("tensorboard", "smdebug", "sagemaker_training", "boto3"),
)
_SDK_3 = ("ai_registry", "core", "mlops", "train")
_NONE_AS_PATH = re.compile(r"TypeError: .*NoneType")
_PINNED = re.compile(r"The user requested \(constraint\) ([\w.-]+)(?:==|(?=[<>]))(\S+)")
_UNFINDABLE = re.compile(r"satisfies the requirement ([\w.-]+)")
_BACKTRACKED = re.compile(r"pip is looking at multiple versions of ([\w.-]+)")
_MISSING_CHANNEL = re.compile(r"SM_CHANNEL_([A-Z0-9_.\-]+)")
_BAD_ARGUMENT = re.compile(
    r"error: (?:unrecognized arguments|argument |the following arguments are required|"
    r"ambiguous option)"
)


def find_hint(
    text: str,
    *,
    channels: Sequence[str],
    out_of_memory: bool,
    sources: Sequence[str] = (),
    is_image: bool = True,
) -> str:
    """Advice for a failure text, or nothing.

    Args:
        text: the error.
        channels: those of the job.
        out_of_memory: whether the kernel killed a process for memory.
        sources: the user's files that the traceback names, as text.
        is_image: False where a process of the user's machine plays the container.
    """
    if module := _MISSING_MODULE.search(text):
        package, _, part = module[1].partition(".")
        if package == "sagemaker" and part:
            return _other_sdk(part)
        if part:
            return f"{package} has no such part in the version of this image"
        name = _PACKAGES.get(module[1], module[1])
        if not is_image and module[1] in _OF_THE_IMAGE:
            return (
                f"the process engine runs with the packages of this machine: pip install {name} "
                "where the platform runs, or use the Docker engine (--engine docker)"
            )
        if advice := _NOT_BY_PIP.get(module[1]):
            return advice
        return f"add {name} to requirements.txt in your source directory, or bake it in"
    if "KeyError" in text and (channel := _MISSING_CHANNEL.search(text)):
        return _no_channel(channel[1], channels)
    if _NONE_AS_PATH.search(text):
        there = {re.sub(r"[.-]", "_", channel.upper()) for channel in channels}
        read = [name for source in sources for name in _MISSING_CHANNEL.findall(source)]
        unset = [name for name in read if re.sub(r"[.-]", "_", name) not in there]
        if unset:
            return _no_channel(unset[0], channels)
    if _BAD_ARGUMENT.search(text):
        return "the hyperparameters do not fit the script's arguments: change one or the other"
    for pattern, advice in _HINTS:
        if re.search(pattern, text, re.IGNORECASE):
            return advice
    return _OOM if out_of_memory else ""


def _other_sdk(part: str) -> str:
    """The SDK's two versions share a name and hardly a module."""
    wanted, pin = (3, "sagemaker>=3") if part.split(".")[0] in _SDK_3 else (2, "sagemaker<3")
    return (
        f"sagemaker.{part} is in version {wanted} of the SageMaker SDK: install '{pin}' in the "
        "job (requirements.txt, or where the script calls pip)"
    )


def _no_channel(variable: str, channels: Sequence[str]) -> str:
    return (
        f"the job has no channel {variable.lower()!r}, but: {', '.join(channels) or 'none'}; "
        "pass it to fit() or inputs="
    )


def find_install_fix(said: str, constraints: str) -> str:
    """What to do about a pip that failed, or nothing.

    Args:
        said: all its lines.
        constraints: the versions that the image holds, as pip reads them.
    """
    held = dict(re.findall(r"^([\w.-]+)==(\S+)$", constraints, re.MULTILINE))
    unfindable = [(name, held[name]) for name in _UNFINDABLE.findall(said) if name in held]
    for name, version in [*_PINNED.findall(said), *unfindable]:
        if re.search(rf"(?:requested|requirement) {re.escape(name)}[=<>~! ]", said):
            return (
                f"delete the line of {name} from requirements.txt: the image has {name} {version}"
                " (STOKER_UNPROTECTED=1 would replace it)"
            )
        asking = re.search(rf"^\s+(\S+ \S+) depends on {re.escape(name)}\b", said, re.MULTILINE)
        return (
            f"{asking[1] if asking else 'a requirement'} is not compatible with {name} {version}, "
            "which the image has: take another version of it"
        )
    if advice := next((a for p, a in _HINTS if re.search(p, said, re.IGNORECASE)), ""):
        return advice
    if tried := _BACKTRACKED.findall(said):
        return (
            f"pip went back to older versions of {', '.join(dict.fromkeys(tried))}, as no newer "
            "one is compatible with the other requirements and the image: name the versions that "
            "you need"
        )
    return ""
