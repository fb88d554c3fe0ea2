"""Any state as JSON and named tensors, and back, without pickle.

Texts, numbers, lists and None stand for themselves. Everything else is an object with one telling
key: {"map": …}, {"tensor": name}, {"tuple": […]}. A value none of them fits goes through torch's
weights-only loader, which runs no code of the file.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from stoker.checkpoints.dtensors import is_dtensor
from stoker.checkpoints.shards import is_storable
from stoker.errors import CheckpointFailed

_WIDEST_BYTES = 8  # torch has no long double
_PLAIN = {bool, int, float, str, type(None)}


class Encoder:
    """Turns state into JSON and collects its tensors under names a person can read.

    Example:
        >>> encoder = Encoder()
        >>> encoder.encode({"lr": 0.1, "w": torch.ones(2)}, "model")
        {'map': {'lr': 0.1, 'w': {'tensor': 'model.w'}}}
        >>> encoder.tensors
        {'model.w': tensor([1., 1.])}
    """

    def __init__(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {}
        self.sharded: dict[str, torch.Tensor] = {}
        """Tensors of which each rank holds a piece: the names are in the JSON, the pieces not."""
        self._seen: dict[tuple[object, ...], str] = {}

    def encode(self, value: object, path: str) -> Any:  # noqa: ANN401 - JSON is any of six types
        """Returns the JSON for a value; `path` names its tensors."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is dict:  # the most frequent first: the training waits for this
            return self._encode_mapping(value, path)  # type: ignore[arg-type] # it is one
        if isinstance(value, torch.Tensor):
            if is_dtensor(value):
                return {"sharded": self._name(self.sharded, path, value)}
            return self._encode_tensor(value, path)
        if isinstance(value, list):
            return [self.encode(item, f"{path}.{i}") for i, item in enumerate(value)]
        if isinstance(value, tuple):
            return {"tuple": [self.encode(item, f"{path}.{i}") for i, item in enumerate(value)]}
        if isinstance(value, Mapping):
            return self._encode_mapping(value, path)
        return self._encode_rare(value, path)

    def _encode_mapping(self, value: Mapping[Any, Any], path: str) -> Any:  # noqa: ANN401
        if all(type(key) is str for key in value):
            return {"map": {k: self.encode(v, f"{path}.{k}") for k, v in value.items()}}
        pairs = value.items()
        return {"pairs": [[self.encode(k, path), self.encode(v, f"{path}.{k}")] for k, v in pairs]}

    def _encode_tensor(self, value: torch.Tensor, path: str) -> Any:  # noqa: ANN401
        # A negative view has the address of its base: without this the base's values would be
        # stored.
        tensor = value.detach().resolve_neg()
        if tensor.is_complex():
            real = torch.view_as_real(tensor.resolve_conj())
            return {"complex": self._encode_tensor(real, path)}
        if tensor.layout is not torch.strided or not is_storable(tensor.dtype):
            return self._encode_rare(tensor, path)
        if not tensor.data_ptr() and tensor.numel():  # made of other tensors: no memory of its own
            return self._encode_rare(tensor, path)
        # Tied weights are one tensor under two names: stored once.
        stride = None if tensor.is_contiguous() else tensor.stride()
        place = tensor.data_ptr() if tensor.numel() else object()
        same = (place, tensor.dtype, tensor.shape, stride, tensor.device)
        if same not in self._seen:
            self._seen[same] = self._name(self.tensors, path, tensor)
        found: dict[str, Any] = {"tensor": self._seen[same]}
        if stride is not None and _is_dense(tensor.shape, stride):
            found["stride"] = list(stride)  # channels_last must come back as it was
        return found

    def _encode_rare(self, value: object, path: str) -> Any:  # noqa: ANN401
        if isinstance(value, np.ndarray | np.generic) and _is_known_to_torch(value.dtype):
            kind = "array" if isinstance(value, np.ndarray) else "scalar"
            # torch knows the machine's own byte order only.
            copy = torch.from_numpy(np.array(value, dtype=value.dtype.newbyteorder("=")))
            return {kind: self._encode_tensor(copy, path)}
        if isinstance(value, bytes):
            return {"bytes": base64.b64encode(value).decode()}
        if isinstance(value, set | frozenset):
            return {"set": [self.encode(item, path) for item in value]}
        if isinstance(value, bool | int | float | str):  # subclasses: enums of numbers and texts
            return self._encode_rare_scalar(value)
        content = torch.frombuffer(bytearray(_weights_only_bytes(value, path)), dtype=torch.uint8)
        return {"torch": self._name(self.tensors, path, content)}

    def _encode_rare_scalar(self, value: bool | int | float | str) -> Any:  # noqa: ANN401
        plain = next(kind for kind in (bool, int, float, str) if isinstance(value, kind))
        return plain(value)

    def _name(self, taken: dict[str, torch.Tensor], path: str, value: torch.Tensor) -> str:
        name = path
        while name in self.tensors or name in self.sharded:
            name += "'"
        taken[name] = value
        return name


def decode(value: Any, tensor: Callable[[str], torch.Tensor]) -> Any:  # noqa: ANN401
    """The state that was encoded; `tensor` finds one by its name.

    Raises:
        ValueError: this is not what an Encoder makes.
    """
    if isinstance(value, list):
        return [decode(item, tensor) for item in value]
    if not isinstance(value, dict):
        return value
    kind = next(iter(value), "")
    if kind not in _DECODERS:
        raise ValueError(f"{kind!r:.40} is not a known kind of value")
    return _DECODERS[kind](value, lambda inner: decode(inner, tensor), tensor)


def _decode_tensor(value: Any, _: object, tensor: Callable[[str], torch.Tensor]) -> torch.Tensor:  # noqa: ANN401
    found = tensor(value["tensor"])
    if "stride" not in value:
        return found
    # Checked first: other strides would take memory by the numbers in the file.
    if not _is_dense(found.shape, value["stride"]):
        raise ValueError(f"{value['tensor']:.80} has the strides {value['stride']!r:.80}")
    return torch.empty_strided(found.shape, value["stride"], dtype=found.dtype).copy_(found)


def _decode_torch(value: Any, _: object, tensor: Callable[[str], torch.Tensor]) -> object:  # noqa: ANN401
    content = io.BytesIO(tensor(value["torch"]).numpy().tobytes())
    return torch.load(content, weights_only=True)


_Decoder = Callable[[Any, Callable[[Any], Any], Callable[[str], torch.Tensor]], Any]
_DECODERS: dict[str, _Decoder] = {
    "map": lambda v, inner, _: {k: inner(item) for k, item in v["map"].items()},
    "pairs": lambda v, inner, _: {inner(k): inner(item) for k, item in v["pairs"]},
    "tuple": lambda v, inner, _: tuple(inner(item) for item in v["tuple"]),
    "set": lambda v, inner, _: {inner(item) for item in v["set"]},
    "bytes": lambda v, _, __: base64.b64decode(v["bytes"]),
    "complex": lambda v, inner, _: torch.view_as_complex(inner(v["complex"]).contiguous()),
    "array": lambda v, inner, _: inner(v["array"]).numpy().copy(),
    "scalar": lambda v, inner, _: inner(v["scalar"]).numpy()[()],
    "sharded": lambda v, _, tensor: tensor(v["sharded"]),
    "tensor": _decode_tensor,
    "torch": _decode_torch,
}


def _is_known_to_torch(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "biuf" and dtype.itemsize <= _WIDEST_BYTES


def _is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements lie without gaps or overlaps, in whatever order."""
    expected = 1
    for stride, size in sorted(zip(strides, shape, strict=True)):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True


def _weights_only_bytes(value: object, path: str) -> bytes:
    """As torch.save writes it, after proof that the restricted loader takes it."""
    content = io.BytesIO()
    try:
        torch.save(value, content)
        content.seek(0)
        # Tried when it is saved: a checkpoint that cannot be read would be found out at the
        # resume.
        torch.load(content, weights_only=True)
    except Exception as error:  # pickling runs the value's own code: anything may come
        raise CheckpointFailed(
            f"{path} holds a {type(value).__qualname__}, which cannot be saved safely",
            fix="keep plain values and tensors in state_dict(), or allow the type: "
            "torch.serialization.add_safe_globals",
        ) from error
    return content.getvalue()
