"""The callbacks on modules: not compiled, given keyword arguments, silent in copies."""

from __future__ import annotations

from stoker.debugging.smdebug_edits.edit import Edit

_HOOK = "smdebug/pytorch/hook.py"
_WHY = "torch.compile does not trace the callbacks; keyword arguments are inputs, too"
_COPY = "a copied or loaded model failed at its first call: its hook was empty; it is silent now"
_REGISTER = "register_forward_hook(self.forward_hook)"

EDITS = (
    Edit(
        path=_HOOK,
        why=_WHY,
        old=f'        """Lambda functions don\'t work here."""\n        module.{_REGISTER}\n',
        new="        module.register_forward_hook(self._after_forward, with_kwargs=True)\n",
    ),
    Edit(
        path=_HOOK,
        why=_WHY,
        old=f"        loss_module.{_REGISTER}\n",
        new="""\
        _keep_out_of_compiled_graphs()
        loss_module.register_forward_hook(self._after_forward, with_kwargs=True)
""",
    ),
    Edit(
        path=_HOOK,
        why=_WHY,
        old="        module.register_forward_pre_hook(self.forward_pre_hook)\n"
        "        module.register_forward_hook(self.fhook)\n",
        new="""\
        _keep_out_of_compiled_graphs()
        module.register_forward_pre_hook(self._before_step)
        module.register_forward_hook(self._after_step)
""",
    ),
    Edit(
        path=_HOOK,
        why=_COPY,
        old="    def register_hook(self, module):\n",
        new="""\
    def _before_step(self, module, inputs):
        if not self.is_copy:
            self.forward_pre_hook(module, inputs)

    def _after_forward(self, module, inputs, keywords, outputs):
        if not self.is_copy:
            self.forward_hook(module, (*inputs, *keywords.values()), outputs)

    def _after_step(self, module, inputs, outputs):
        if not self.is_copy:
            self.fhook(module, inputs, outputs)

    def register_hook(self, module):
""",
    ),
    Edit(
        path="smdebug/core/hook.py",
        why=_COPY,
        old="    def __getstate__(self):\n        return {}\n",
        new="""\
    def __getstate__(self):
        return {"is_copy": True}

    is_copy = False
""",
    ),
    # On the class and not on the bound methods: those are pickled with a model, by their names.
    Edit(
        path=_HOOK,
        why=_WHY,
        old="DEFAULT_INCLUDE_COLLECTIONS = [CollectionKeys.LOSSES]\n",
        new='''\
DEFAULT_INCLUDE_COLLECTIONS = [CollectionKeys.LOSSES]


@lru_cache(maxsize=None)
def _keep_out_of_compiled_graphs():
    """Called when a module is registered and not at import: it loads Dynamo, which takes a second
    or two, but which every optimizer of torch loads, too."""
    for name in ("_before_step", "_after_forward", "_after_step"):
        setattr(Hook, name, torch.compiler.disable(getattr(Hook, name)))
''',
    ),
    Edit(
        _HOOK,
        _WHY,
        "import os\nimport time\n",
        "import os\nimport time\nfrom functools import lru_cache\n",
    ),
)
