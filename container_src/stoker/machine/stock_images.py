"""AWS's own images by the names that both SDKs compute, and what runs in their place here.

The names hold an account per region: those of both SDKs' tables (v2 2.257, v3 3.27). An image
of the same name in a user's own account is the user's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# AWS Deep Learning Containers; the framework images before them; scikit-learn.
_DEEP_LEARNING = """
    094389454867 124382933778 204133271717 204538143572 217643126080 303241398832 364406365360
    371248457586 380420809688 442386744353 446045086412 454834333376 457447274322 503227376785
    550225433462 590183813437 626614931356 633930458069 637423239942 692866216735 727897471807
    763104351884 772153158452 780543022126 871362719292 886529160074 907027046896 914824155844
    975050140332"""
_BEFORE_THEM = """
    048378556238 057415533634 246785580436 313743910680 422961961927 423003514399 453391408702
    520713654638 724002660598 744548109606"""
_SCIKIT_LEARN = """
    104374241257 106583098589 108575199400 121021644041 124985052026 141502667606 190319476487
    237065988967 246618743249 257758044811 272398656194 281123927165 341280168497 354813040037
    366743142698 414596584902 450853457545 451049120500 492215442770 510948584623 628508329040
    651117190479 659782779980 662702820516 680994064768 683313688378 720646828776 737474898029
    746614075791 764974769150 783357654285 801668240914 833128469047 867004704886 898809789911
    951798379941 978288397137"""
_ACCOUNTS = frozenset(f"{_DEEP_LEARNING}{_BEFORE_THEM}{_SCIKIT_LEARN}".split())
_FLAVORS = {
    "pytorch": "cpu",
    "pytorch-training": "cpu",
    "sagemaker-pytorch": "cpu",
    "huggingface-pytorch-training": "cpu",
    "tensorflow-training": "tensorflow",
    "sagemaker-tensorflow": "tensorflow",
    "sagemaker-tensorflow-scriptmode": "tensorflow",
    "huggingface-tensorflow-training": "tensorflow",
    "sagemaker-scikit-learn": "sklearn",
}
_FRAMEWORKS = {
    "cpu": ("PyTorch", "stoker.torch.version"),
    "tensorflow": ("TensorFlow", "stoker.tensorflow.version"),
    "sklearn": ("scikit-learn", "stoker.sklearn.version"),
}
# Found in repository or tag, in this order.
_REFUSED = (
    (r"neuron", "it is for AWS's own chips, another architecture than this machine's"),
    (r"graviton|arm64", "it is for arm64, another architecture than this platform's images"),
    (r"inference|serving|tgi|tei|djl", "it serves models, and the platform has no endpoints"),
    (r"mxnet", "MXNet was retired in 2023, and Stoker has no flavour for it"),
    (r"trcomp", "the Training Compiler was retired; without compiler_config= it is not needed"),
    (r"", "Stoker has no image that could run in its place"),
)
# ECR's addresses of all partitions, and the public gallery that has no account.
_ECR = re.compile(
    r"(?:(?P<account>\d{12})\.dkr\.ecr(?:-fips)?\.[a-z0-9-]+\.[a-z0-9.-]+"
    r"|public\.ecr\.aws/deep-learning-containers)"
    r"/(?P<repository>[^:@]+)(?::(?P<tag>[^@]+))?(?:@.+)?"
)
_VERSION = re.compile(r"\d+(?:\.\d+)*(?:-\d+(?=-))?")
_PYTHON = re.compile(r"-py(\d)(\d*)\b")
_TRANSFORMERS = re.compile(r"-transformers([\d.]+)")
_GPU = re.compile(r"-(?:gpu|cu\d+)\b")


@dataclass(frozen=True, kw_only=True, slots=True)
class StockImage:
    """An image of AWS that a request names."""

    name: str
    """Repository and tag, as in `pytorch-training:2.3-gpu-py311`."""

    flavor: str
    """Of our image that runs in its place; empty if there is none."""

    refusal: str = ""
    """Why there is none."""

    framework: str = ""
    label: str = ""
    """That of our image which holds the framework's version."""

    version: str = ""
    """`framework_version`; empty if the name does not say."""

    python: str = ""
    """Such as 3.11, or 3 where any was meant; empty if the name does not say."""

    transformers: str = ""
    """The version of Hugging Face's library; empty for all but their images."""

    is_gpu: bool = False

    def list_local(self, *, has_gpus: bool) -> tuple[str, ...]:
        """Our images that may run, the best first."""
        if self.flavor == "cpu" and self.is_gpu and has_gpus:
            return ("stoker:cuda", "stoker:cpu")
        return (f"stoker:{self.flavor}",)

    def list_differences(self, version: str, python: str) -> list[str]:
        """What was asked for and is not in our image, by that image's labels."""
        found = []
        if version and self.version and not _is_release(version, self.version):
            found.append(f"framework_version {self.version} (it has {version})")
        if python and self.python and not _is_release(python, self.python):
            found.append(f"Python {self.python} (it has {python})")
        if self.transformers:
            found.append(f"transformers {self.transformers} (list it in requirements.txt)")
        return found

    @property
    def wants_keras_2(self) -> bool:
        """Whether `tf.keras` was Keras 2 in the asked image: before TensorFlow 2.16."""
        numbers = [int(part) for part in re.findall(r"\d+", self.version)[:2]]
        return self.flavor == "tensorflow" and bool(numbers) and numbers < [2, 16]


def find_stock_image(image: str) -> StockImage | None:
    """What the name asks for; None if it is not the name of an image of AWS."""
    found = _ECR.fullmatch(image)
    if found is None or (found["account"] and found["account"] not in _ACCOUNTS):
        return None
    repository, tag = found["repository"], found["tag"] or ""
    name = f"{repository}:{tag}" if tag else repository
    flavor = _FLAVORS.get(repository, "")
    # An image of another architecture may be in the same repository: then only its tag tells.
    if not flavor or re.search(_REFUSED[1][0], tag):
        refusal = next(why for mark, why in _REFUSED if re.search(mark, name))
        return StockImage(name=name, flavor="", refusal=refusal)
    framework, label = _FRAMEWORKS[flavor]
    version, python = _VERSION.match(tag), _PYTHON.search(tag)
    transformers = _TRANSFORMERS.search(tag)
    return StockImage(
        name=name,
        flavor=flavor,
        framework=framework,
        label=label,
        version=version[0] if version else "",
        python=".".join(filter(None, python.groups())) if python else "",
        transformers=transformers[1] if transformers else "",
        is_gpu=_GPU.search(tag) is not None,
    )


def is_of_ecr(image: str) -> bool:
    """Whether a registry of ECR is named, of whatever account."""
    return _ECR.fullmatch(image) is not None


def list_repositories() -> str:
    """Those in whose place a Stoker image runs, for messages."""
    return ", ".join(_FLAVORS)


def _is_release(have: str, asked: str) -> bool:
    """Whether a version is one of a release: 2.13.0+cpu is one of 2.13; 1.2-1 means 1.2."""
    wanted = asked.partition("-")[0]
    plain = have.partition("+")[0]
    return plain == wanted or plain.startswith(f"{wanted}.") or wanted.startswith(f"{plain}.")
