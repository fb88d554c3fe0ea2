"""Names of AWS's images: those that both SDKs compute, and what runs in their place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from stoker.machine.stock_images import find_stock_image
from tests.sdks import sdk_python

DLC = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
SKLEARN = "246618743249.dkr.ecr.us-west-2.amazonaws.com/sagemaker-scikit-learn"
RUNNABLE = ("pytorch.json", "tensorflow.json", "huggingface.json", "sklearn.json")


@pytest.mark.parametrize(
    ("image", "flavor", "version", "python", "is_gpu"),
    [
        (f"{DLC}/pytorch-training:2.3-gpu-py311", "cpu", "2.3", "3.11", True),
        (f"{DLC}/pytorch-training:2.3.0-cpu-py311-ubuntu20.04-sagemaker",
         "cpu", "2.3.0", "3.11", False),
        (f"{DLC}/pytorch:2.13-cu133-amzn2023-sagemaker", "cpu", "2.13", "", True),
        (f"{DLC}/pytorch-training@sha256:{64 * '0'}", "cpu", "", "", False),
        (f"{DLC}/tensorflow-training:2.14.1-cpu-py310", "tensorflow", "2.14.1", "3.10", False),
        (f"{SKLEARN}:1.2-1-cpu-py3", "sklearn", "1.2-1", "3", False),
        (f"{SKLEARN}:0.20.0-cpu-py3", "sklearn", "0.20.0", "3", False),
        ("520713654638.dkr.ecr.eu-west-1.amazonaws.com/sagemaker-tensorflow:1.12-cpu-py2",
         "tensorflow", "1.12", "2", False),
        ("727897471807.dkr.ecr.cn-north-1.amazonaws.com.cn/pytorch-training:1.8-gpu-py36",
         "cpu", "1.8", "3.6", True),
        ("public.ecr.aws/deep-learning-containers/pytorch-training:2.6-cpu-py312",
         "cpu", "2.6", "3.12", False),
    ],
)  # fmt: skip
def test_a_name_of_aws_says_what_is_asked_for(image, flavor, version, python, is_gpu):
    found = find_stock_image(image)
    assert found is not None
    assert (found.flavor, found.version, found.python, found.is_gpu) == (
        flavor,
        version,
        python,
        is_gpu,
    )


@pytest.mark.parametrize(
    "image",
    [
        "stoker:cpu",
        "pytorch-training:2.3-gpu-py311",
        "123456789012.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:mine",
        "pytorch/pytorch:2.3",
    ],
)
def test_an_image_of_the_user_is_left_alone(image):
    assert find_stock_image(image) is None


@pytest.mark.parametrize(
    ("image", "why"),
    [
        (f"{DLC}/pytorch-training-neuronx:2.1-neuronx-py310", "architecture"),
        (f"{DLC}/pytorch-training-arm64:2.7-gpu-py312", "arm64"),
        (f"{DLC}/pytorch-inference:2.3-cpu-py311", "endpoints"),
        (f"{DLC}/mxnet-training:1.9-cpu-py38", "retired"),
        ("683313688378.dkr.ecr.us-east-1.amazonaws.com/sagemaker-xgboost:1.7-1", "no image"),
    ],
)
def test_an_image_without_a_replacement_says_why(image, why):
    found = find_stock_image(image)
    assert found is not None
    assert not found.flavor
    assert why in found.refusal


def test_what_our_image_does_not_have_is_listed():
    asked = find_stock_image(
        f"{DLC}/huggingface-pytorch-training:2.1.0-transformers4.36.0-gpu-py310-cu121-ubuntu20.04"
    )
    differences = "; ".join(asked.list_differences("2.13.0+cpu", "3.11"))
    assert "framework_version 2.1.0 (it has 2.13.0+cpu)" in differences
    assert "Python 3.10 (it has 3.11)" in differences
    assert "transformers 4.36.0" in differences
    same = find_stock_image(f"{DLC}/pytorch-training:2.13-cpu-py311")
    assert same.list_differences("2.13.0+cpu", "3.11") == []
    assert find_stock_image(f"{SKLEARN}:1.9-1-cpu-py3").list_differences("1.9.1", "3.11") == []


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("tensorflow-training:2.3.1-cpu-py37", True),
        ("tensorflow-training:2.16.2-cpu-py310", False),
        ("tensorflow-training:2.19-cpu-py312", False),
        ("pytorch-training:1.8-cpu-py36", False),
    ],
)
def test_tensorflow_before_2_16_had_keras_2(image, expected):
    assert find_stock_image(f"{DLC}/{image}").wants_keras_2 is expected


def test_a_gpu_image_prefers_cuda_where_there_are_gpus():
    asked = find_stock_image(f"{DLC}/pytorch-training:2.3-gpu-py311")
    assert asked.list_local(has_gpus=True) == ("stoker:cuda", "stoker:cpu")
    assert asked.list_local(has_gpus=False) == ("stoker:cpu",)


@pytest.mark.parametrize("sdk", ["v2", "v3"])
def test_every_training_image_of_an_sdk_is_known_in_every_region(sdk):
    site = next((sdk_python(sdk).parents[1] / "lib").glob("python3*/site-packages/sagemaker"))
    folder = site / ("core" if sdk == "v3" else "") / "image_uri_config"
    names = [
        f"{account}.dkr.ecr.{region}.amazonaws.com/{repository}:1.0-cpu-py3"
        for file in (*RUNNABLE, "pytorch-amzn2023.json")
        if (folder / file).exists()
        for region, account, repository in _images(
            json.loads((folder / file).read_text())["training"]
        )
    ]
    assert len(set(names)) > 200
    unknown = [n for n in names if not (found := find_stock_image(n)) or not found.flavor]
    assert unknown == []


def _images(config: Any) -> Iterator[tuple[str, str, str]]:
    """Region, account and repository of each version, wherever a table keeps it."""
    if isinstance(config, dict) and {"registries", "repository"} <= config.keys():
        for region, account in config["registries"].items():
            yield region, account, config["repository"]
    elif isinstance(config, dict):
        for part in config.values():
            yield from _images(part)
