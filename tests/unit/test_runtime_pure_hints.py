"""One line of advice for the failures everybody meets, on texts as they were printed."""

from __future__ import annotations

import pytest

from stoker.runtime.hints import find_hint

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
