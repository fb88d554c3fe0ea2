"""The outermost models of a script, and what their tensors are called."""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import nn

from stoker.debugging.description import Description, Kind

# Wrappers of a model, and where the model is in them.
# By the names of their classes, so that none of these libraries has to be imported.
_WRAPPERS = {
    "OptimizedModule": "_orig_mod",
    "DistributedDataParallel": "module",
    "DataParallel": "module",
    "FullyShardedDataParallel": "module",
    "DeepSpeedEngine": "module",
    "_FabricModule": "_forward_module",
}
_WRAPPER_NAMES = re.compile(
    r"(^|(?<=\.))(_orig_mod|_checkpoint_wrapped_module|_fsdp_wrapped_module)(\.|$)"
)


def unwrap(module: nn.Module) -> nn.Module:
    """The user's model, without what distributes or compiles it."""
    while (inner := _inside(module)) is not None:
        module = inner
    return module


def has_compiler(module: nn.Module) -> bool:
    """Whether one of those around the model compiles it."""
    outer: nn.Module | None = module
    while outer is not None:
        if _is_compiled(outer):
            return True
        outer = _inside(outer)
    return False


def _inside(module: nn.Module) -> nn.Module | None:
    inner = getattr(module, _WRAPPERS.get(type(module).__name__, ""), None)
    return inner if isinstance(inner, nn.Module) else None


def class_name(module: nn.Module) -> str:
    """The user's class, also where it is scripted."""
    is_scripted = isinstance(module, torch.jit.ScriptModule)
    return str(module.original_name) if is_scripted else type(module).__name__


def is_loss(module: nn.Module) -> bool:
    """Whether a module is a loss: torch's, or one that is called so."""
    if isinstance(module, nn.modules.loss._Loss):
        return True
    # `ModelWithLoss` is a model.
    return re.search(r"(?<!With)([Ll]oss|[Cc]riterion)$", class_name(module)) is not None


class Model:
    """One of the outermost models. It is the script's: held by a weak reference only."""

    def __init__(self, module: nn.Module, label: str, *, is_first: bool) -> None:
        self._module = weakref.ref(module)
        self.label = label
        """Its class, and a number where another model has that name already."""
        # smdebug knows one model and names its modules without it.
        self._prefix = "" if is_first else f"{label}_"
        self.has_trainable = True
        self.changes = 0
        """How often it was seen to have other modules, or to be frozen or not."""
        self._members: list[weakref.ref[nn.Module]] = []
        self.refresh()

    @property
    def module(self) -> nn.Module | None:
        return self._module()

    @property
    def training(self) -> bool:
        module = self._module()
        return module is not None and module.training

    def is_whole(self, module: nn.Module) -> bool:
        """Whether a module is the model, and not a part of it."""
        return self._module() is module

    def name_of(self, module: nn.Module) -> str:
        """What the inputs and outputs of the model, or of a part of it, begin with."""
        model = self._module()
        named = model.named_modules() if model is not None else ()
        found = next((_clean(name) for name, member in named if member is module), "")
        return f"{self._prefix}{found}" if found else self.label

    def refresh(self) -> None:
        """What may have been frozen, added or replaced since."""
        module = self._module()
        if module is None:
            return
        had_trainable = self.has_trainable
        self.has_trainable = any(p.requires_grad for p in module.parameters())
        members = list(module.modules())
        if [member() for member in self._members] != members:
            self._members = [weakref.ref(member) for member in members]
            self.changes += 1
        self.changes += self.has_trainable != had_trainable

    def contains(self, module: nn.Module) -> bool:
        return any(member() is module for member in self._members)

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Each once, shared ones under their first name."""
        module = self._module()
        return iter(()) if module is None else module.named_parameters()

    def modules(self) -> Iterator[tuple[str, nn.Module]]:
        """The modules inside, by the name their inputs and outputs begin with."""
        module = self._module()
        if module is not None and not _is_compiled(module):
            yield from self._inner(module, "", set())

    def describe(self, name: str, parameter: nn.Parameter) -> Description:
        """A parameter, by its name in the model."""
        clean = _clean(name)
        kind: Kind = "other"
        if "weight" in clean:
            kind = "weight"
        elif "bias" in clean:
            kind = "bias"
        return Description(
            name=f"{self.label}_{clean}",
            kind=kind,
            module=clean.rpartition(".")[0],
            is_frozen=not parameter.requires_grad,
        )

    def _inner(
        self, module: nn.Module, path: str, seen: set[nn.Module]
    ) -> Iterator[tuple[str, nn.Module]]:
        for name, child in module.named_children():
            if child in seen or _takes_no_hooks(child):
                continue
            seen.add(child)
            full = f"{path}.{name}".lstrip(".")
            clean = _clean(full)
            if clean != _clean(path):
                yield f"{self._prefix}{clean}", child
            # The inside of a compiled model cannot be seen, only its inputs and outputs.
            if not _is_compiled(child):
                yield from self._inner(child, full, seen)


class Models:
    """Those that were seen."""

    def __init__(self) -> None:
        self._models: list[Model] = []
        # Of those that are a model themselves: a loop over a ModuleList makes each of it one.
        self._by_id: dict[int, Model] = {}

    def find(self, module: nn.Module) -> Model | None:
        """The model that a module is, or is part of; a new one if it has parameters."""
        module = unwrap(module)
        known = self._by_id.get(id(module))
        if known is not None and known.is_whole(module):
            return known
        for model in self._models:
            if model.contains(module):
                return model
        if next(module.parameters(), None) is None:
            return None  # a metric, a transform: nothing that is trained
        inside = set(module.modules())  # what was taken for a model and is a part of this one
        self._models = [m for m in self._models if m.module is not None and m.module not in inside]
        model = Model(module, self._label(module), is_first=not self._models)
        self._models.append(model)
        self._by_id = {id(m.module): m for m in self._models}
        return model

    def all(self) -> list[Model]:
        return list(self._models)

    def has_trainable(self) -> bool:
        return any(model.has_trainable for model in self._models)

    def _label(self, module: nn.Module) -> str:
        name = class_name(module)
        taken = {model.label for model in self._models}
        labels = [name, *(f"{name}_{number}" for number in range(1, len(taken) + 1))]
        return next(label for label in labels if label not in taken)


def describe_gradient(parameter: Description) -> Description:
    return replace(parameter, name=f"gradient/{parameter.name}", kind="gradient")


def describe_end(
    name: str, module_class: str, side: str, position: int, *, is_model: bool, is_of_loss: bool
) -> Description:
    """An input or output of a module."""
    kind: Kind = "input" if side == "input" else "loss" if is_of_loss else "output"
    return Description(
        name=f"{name}_{side}_{position}",
        kind=kind,
        module="" if is_model or is_of_loss else name,
        module_class=module_class,
        position=position,
        is_model=is_model,
        is_of_loss=is_of_loss,
    )


def _clean(name: str) -> str:
    return _WRAPPER_NAMES.sub("", name).rstrip(".")


def _is_compiled(module: nn.Module) -> bool:
    return type(module).__name__ == "OptimizedModule" or _takes_no_hooks(module)


def _takes_no_hooks(module: nn.Module) -> bool:
    return module._compiled_call_impl is not None or isinstance(module, torch.jit.ScriptModule)


def is_unusual_call() -> bool:
    """Whether this call is none of the script's own: a recomputation, a trace, a transform."""
    return (
        # Gradient checkpointing calls modules again within the backward pass.
        torch._C._current_graph_task_id() != -1
        or torch._C._get_tracing_state() is not None
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch._C._len_torch_dispatch_stack() > 0
        or is_cuda_graph_made()
    )


def is_cuda_graph_made() -> bool:
    """Whether CUDA records calls to repeat them later (graphs): our copies, too."""
    has_cuda: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return has_cuda and torch.cuda.is_current_stream_capturing()
