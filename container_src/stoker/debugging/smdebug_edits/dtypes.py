"""Tensors of every kind: bfloat16 and float8, sparse, all integers; shapes next to values."""

from __future__ import annotations

from stoker.debugging.smdebug_edits.edit import Edit

_UNKNOWN = "NumPy has no bfloat16 or float8 and no sparse tensors: stored as float32, and dense"
_REDUCIBLE = "tensors that NumPy does not know; reductions of sparse, 8-bit and integer tensors"

EDITS = (
    Edit(
        path="smdebug/pytorch/hook.py",
        why=_UNKNOWN,
        old="            return tensor_value.to(torch.device("
        '"cpu")).data.numpy()\n        return make_numpy_array(tensor_value)\n',
        new="""\
            return as_numpy(tensor_value)
        return make_numpy_array(tensor_value)
""",
    ),
    Edit(
        path="smdebug/pytorch/hook.py",
        why=_UNKNOWN,
        old="from smdebug.pytorch.utils import get_reduction_of_data, ",
        new="from smdebug.pytorch.utils import as_numpy, get_reduction_of_data, ",
    ),
    Edit(
        path="smdebug/pytorch/utils.py",
        why=_REDUCIBLE,
        old="def get_reduction_of_data(reduction_name, tensor_data, tensor_name, abs=False):\n",
        new='''\
def as_numpy(tensor):
    """The tensor as an array. What NumPy has no dtype for becomes float32 (or complex64)."""
    tensor = _dense(tensor.detach().to("cpu")).resolve_conj().resolve_neg()
    try:
        return tensor.numpy()
    except TypeError:
        return tensor.to(torch.complex64 if tensor.is_complex() else torch.float32).numpy()


def _dense(tensor):
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    return tensor.dequantize() if tensor.is_quantized else tensor


def _reducible(tensor, reduction_name):
    """The tensor in a form for which torch has this reduction."""
    tensor = _dense(tensor)
    if tensor.dtype == torch.bool:
        tensor = tensor.to(torch.uint8)
    if tensor.is_floating_point():
        return tensor if tensor.element_size() > 1 else tensor.to(torch.float32)  # float8
    exact = tensor.is_complex() or reduction_name in ("min", "max", "sum", "prod")
    return tensor if exact else tensor.to(torch.float64)


def get_reduction_of_data(reduction_name, tensor_data, tensor_name, abs=False):
''',
    ),
    Edit(
        path="smdebug/pytorch/utils.py",
        why=_REDUCIBLE,
        old="        return get_numpy_reduction(reduction_name, tensor_data, abs)\n",
        new="""\
        return get_numpy_reduction(reduction_name, tensor_data, abs)
    tensor_data = _reducible(tensor_data, reduction_name)
""",
    ),
    Edit(
        path="smdebug/core/tfevent/event_file_reader.py",
        why="int8 came back as uint8; five more types were written, but could not be read",
        old="        types_pb2.DT_INT8: np.uint8,\n",
        new="""\
        types_pb2.DT_INT8: np.int8,
        types_pb2.DT_INT16: np.int16,
        types_pb2.DT_UINT16: np.uint16,
        types_pb2.DT_UINT32: np.uint32,
        types_pb2.DT_UINT64: np.uint64,
        types_pb2.DT_COMPLEX64: np.complex64,
""",
    ),
    Edit(
        path="smdebug/core/index_reader.py",
        why="the shape of a tensor took the place of where its value is",
        old="index_tensors_dict[tensor_name][step].update({worker: obj_dict})",
        new="index_tensors_dict[tensor_name][step].setdefault(worker, {}).update(obj_dict)",
    ),
)
