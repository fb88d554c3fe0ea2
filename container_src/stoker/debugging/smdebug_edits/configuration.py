"""Configuration files: booleans as SageMaker passes them, values that keep their case."""

from __future__ import annotations

from stoker.debugging.smdebug_edits.edit import Edit

_REDUCTION = "smdebug/core/reduction_config.py"
_PARSER = "smdebug/profiler/profiler_config_parser.py"
_STRING_BOOLEAN = "SageMaker's API has strings only: 'true' is a boolean"
_CASE = "only keys are without case (a path is not), and a field is read and not evaluated"

EDITS = (
    Edit(
        path=_REDUCTION,
        why=_STRING_BOOLEAN,
        old='        save_shape = params.get("save_shape", False)\n'
        '        save_raw_tensor = params.get("save_raw_tensor", False)\n',
        new='        save_shape = _as_boolean(params.get("save_shape", False))\n'
        '        save_raw_tensor = _as_boolean(params.get("save_raw_tensor", False))\n',
    ),
    Edit(
        path=_REDUCTION,
        why=_STRING_BOOLEAN,
        old="class ReductionConfig:\n",
        new='''\
def _as_boolean(value):
    """Also the words of SageMaker's string-to-string parameters; others are left for _check."""
    words = {"true": True, "false": False}
    return words.get(value.strip().lower(), value) if isinstance(value, str) else value


class ReductionConfig:
''',
    ),
    Edit(
        path=_PARSER,
        why=_CASE,
        old="full_config = json.loads(json_data.read().lower())\n",
        new="full_config = _lower_keys(json.loads(json_data.read()))\n",
    ),
    Edit(
        path=_PARSER,
        why=_CASE,
        old='            metrics_config = eval(config.get(config_name.value, "{}"))\n',
        new='            metrics_config = _parse_fields(config.get(config_name.value, "{}"))\n',
    ),
    Edit(
        path=_PARSER,
        why=_CASE,
        old="        except (ValueError, AssertionError) as e:\n",
        new="        except (ValueError, SyntaxError, AssertionError) as e:\n",
    ),
    Edit(
        path=_PARSER,
        why=_CASE,
        old="class LastProfilingStatus(Enum):\n",
        new='''\
def _lower_keys(value):
    """JSON with all keys in lower case; the values stay as they are."""
    if isinstance(value, dict):
        return {key.lower(): _lower_keys(inner) for key, inner in value.items()}
    return value


def _parse_fields(text):
    """A dictionary written as JSON, or as Python writes it."""
    try:
        fields = json.loads(text)
    except ValueError:
        fields = ast.literal_eval(text)
    assert isinstance(fields, dict), f"not a dictionary: {text}"
    fields = _lower_keys(fields)
    for name in ("profilername", "cprofiletimer"):  # a choice of words: without case
        if isinstance(fields.get(name), str):
            fields[name] = fields[name].lower()
    return fields


class LastProfilingStatus(Enum):
''',
    ),
    Edit(
        path=_PARSER,
        why=_CASE,
        old="# Standard Library\nimport json\n",
        new="# Standard Library\nimport ast\nimport json\n",
    ),
    Edit(
        path="smdebug/profiler/profiler_config.py",
        why="the regex is no longer made lower case before it comes here",
        old='METRICS_REGEX.value, ".*")\n',
        new='METRICS_REGEX.value, ".*"),\n                re.IGNORECASE,\n',
    ),
)
