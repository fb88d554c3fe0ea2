"""The hook: outputs of every form, scalars in their mode, save_tensor, true messages."""

from __future__ import annotations

from stoker.debugging.smdebug_edits.edit import Edit

_HOOK = "smdebug/core/hook.py"
_FORMS = "outputs of modules may be dicts (also a library's ModelOutput) and dataclasses"
_SCALAR_MODE = "a scalar belongs to the mode in which it was saved, not to the one that followed"
_NEW_COLLECTION = "save_tensor into a new collection failed, and of several only the last was kept"

EDITS = (
    Edit(
        path=_HOOK,
        why=_FORMS,
        old="                idx = self._write(module_name, val, suffix, idx)\n",
        new="""\
                idx = self._write(module_name, val, suffix, idx)
        elif isinstance(var, Mapping):
            idx = self._write(module_name, list(var.values()), suffix, idx)
        elif is_dataclass(var) and not isinstance(var, type):
            values = [getattr(var, field.name) for field in fields(var)]
            idx = self._write(module_name, values, suffix, idx)
""",
    ),
    Edit(
        path=_HOOK,
        why=_FORMS,
        old="from collections import defaultdict\n",
        new="from collections import defaultdict\n"
        "from collections.abc import Mapping\n"
        "from dataclasses import fields, is_dataclass\n",
    ),
    Edit(
        path=_HOOK,
        why=_SCALAR_MODE,
        old="_maybe_get_tb_writer()\n                if tb_writer:\n",
        new="_maybe_get_tb_writer(scalar_mode)\n                if tb_writer:\n",
    ),
    Edit(
        path=_HOOK,
        why=_SCALAR_MODE,
        old="self._write_raw_tensor_simple(scalar_name, scalar_val, timestamp=timestamp)\n",
        new="self._write_raw_tensor_simple(\n"
        "                    scalar_name, scalar_val, timestamp=timestamp, mode=scalar_mode\n"
        "                )\n",
    ),
    Edit(
        path=_HOOK,
        why=_SCALAR_MODE,
        old="    def _write_raw_tensor_simple(self, tensor_name, tensor_value, tensor_ref=None,"
        " timestamp=None):\n",
        new="    def _write_raw_tensor_simple(\n"
        "        self, tensor_name, tensor_value, tensor_ref=None, timestamp=None, mode=None\n"
        "    ):\n"
        "        mode = self.mode if mode is None else mode\n",
    ),
    Edit(
        path=_HOOK,
        why=_SCALAR_MODE,
        old="                    tname=tensor_name,\n"
        "                    mode=self.mode,\n"
        "                    mode_step=self.mode_steps[self.mode],\n",
        new="                    tname=tensor_name,\n"
        "                    mode=mode,\n"
        "                    mode_step=self.mode_steps[mode],\n",
    ),
    Edit(
        path=_HOOK,
        why=_SCALAR_MODE,
        old="    def _maybe_get_tb_writer(self) -> Optional[FileWriter]:\n",
        new="    def _maybe_get_tb_writer(self, mode=None) -> Optional[FileWriter]:\n",
    ),
    Edit(
        path=_HOOK,
        why=_SCALAR_MODE,
        old="        if self.mode in self.tb_writers:\n            if self.tb_writers is None:\n",
        until="    def _close_tb_writer(self):\n",
        new="""\
        mode = self.mode if mode is None else mode
        if mode not in self.tb_writers:
            self.tb_writers[mode] = FileWriter(
                trial_dir=self.tensorboard_dir,
                step=self.step,
                worker=get_tb_worker(),
                write_checksum=True,
                wtype="tensorboard",
                mode=mode,
            )
        return self.tb_writers[mode]

""",
    ),
    Edit(
        path=_HOOK,
        why=_NEW_COLLECTION,
        old="        for collection in collections_to_write:\n"
        "            self.custom_tensors_to_save[tensor_name] = (tensor_value, collection)\n",
        new="        self.custom_tensors_to_save[tensor_name] = (tensor_value,"
        " list(collections_to_write))\n",
    ),
    Edit(
        path=_HOOK,
        why=_NEW_COLLECTION,
        old="            c = self.collection_manager.get(collection_names, create=True)\n",
        until="        self.custom_tensors_to_save.clear()\n",
        new="""\
            collections = [self.collection_manager.get(name) for name in collection_names]
            for c in collections:
                if tensor_name not in c.tensor_names:
                    c.add_tensor_name(tensor_name)
                    self.exported_collections = False  # the file does not name this tensor yet
                c.save_config = c.save_config or self.save_config
                c.reduction_config = c.reduction_config or self.reduction_config
            self._write_raw_tensor(tensor_name, tensor_value, collections)
""",
    ),
    Edit(
        path=_HOOK,
        why="a hook that failed in its constructor hid the reason behind an AttributeError",
        old="    def has_default_configuration(self):\n",
        new="""\
    def has_default_configuration(self):
        if not hasattr(self, "profiler_config_parser"):
            return False  # still in the constructor: its caller is to see why it failed
""",
    ),
    Edit(
        path="smdebug/core/hook_utils.py",
        why="the folder need not be on S3, and the reason is that a job has ended there",
        old='            "The path:{} already exists on s3. "\n',
        new='            "The path:{} already holds the tensors of a finished job. "\n',
    ),
)
