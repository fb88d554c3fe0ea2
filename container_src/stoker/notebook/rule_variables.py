"""The SDK's rules as environment variables: that is how they reach a container in the cloud."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from stoker.contract.debugger import HOOK_VARIABLE, split_rules
from stoker.debugging.specs import Action, RuleSpec, make_rule, write_specs
from stoker.debugging.specs.settings import make_spec
from stoker.errors import RuleInvalid

# SageMaker's limits for Environment: variables, and characters of a value.
_MOST_VARIABLES = 100
_VALUE_CHARACTERS = 512  # the service's limit of a variable


def rules_environment(
    rules: Iterable[Any], *, source_dir: str | Path | None = None
) -> dict[str, str]:
    """What to pass as `environment=` instead of `rules=`, for the same rules in the cloud.

    A StopTraining without a prefix means the job itself, whatever it will be called. Of
    `collections_to_save`, the hook in the container saves all but TensorBoard's histograms.

    Args:
        rules: `sagemaker.debugger.Rule` objects of SDK v2 or v3, or DebugRuleConfigurations.
        source_dir: the estimator's; needed for `Rule.custom` with a local `source`, which must
            be in it.

    Raises:
        RuleInvalid: with the rule and all that is wrong about it.

    Example:
        >>> rules = [Rule.sagemaker(rule_configs.vanishing_gradient())]        # doctest: +SKIP
        >>> PyTorch(…, environment=stoker.notebook.rules_environment(rules))       # doctest: +SKIP
    """
    listed = list(rules)
    specs = [make_rule_spec(rule, source_dir=source_dir) for rule in listed]
    _require_unique([spec.name for spec in specs])
    for spec in specs:
        _require_makeable(spec)
    collections = [c for rule in listed for c in getattr(rule, "collection_configs", None) or ()]
    variables = split_rules(write_specs(specs)) if specs else {}
    hook = make_hook_request(collections)
    if hook:
        variables[HOOK_VARIABLE] = hook
    _require_fitting(variables)
    return variables


def make_rule_spec(rule: Any, *, source_dir: str | Path | None) -> RuleSpec:  # noqa: ANN401 - the SDK's own
    """One rule of the SDK, or one entry of DebugRuleConfigurations, in our form.

    Raises:
        RuleInvalid: it is neither, or says what cannot be.
    """
    name, parameters, actions = _parts(rule)
    try:
        spec = make_spec(name, "", {key: str(value) for key, value in parameters.items()})
        spec = replace(spec, actions=(*spec.actions, *actions))
        return _place_source(spec, source_dir)
    except RuleInvalid as error:
        raise RuleInvalid(f"rule {name}: {error.message}", fix=error.fix) from None


def _parts(rule: Any) -> tuple[str, Mapping[str, Any], list[Action]]:  # noqa: ANN401 - the SDK's own
    if isinstance(rule, Mapping) and isinstance(rule.get("RuleConfigurationName"), str):
        return rule["RuleConfigurationName"], rule.get("RuleParameters") or {}, []
    name = getattr(rule, "name", None)
    if not isinstance(name, str) or not hasattr(rule, "rule_parameters"):
        raise RuleInvalid(
            f"{rule!r:.120} is not a rule",
            fix="pass Rule.sagemaker(rule_configs.vanishing_gradient()) or Rule.custom(…)",
        )
    if not hasattr(rule, "collection_configs"):
        raise RuleInvalid(
            f"rule {name} is a rule of the profiler, which looks at no tensors",
            fix="pass debugging rules only: sagemaker.debugger.Rule",
        )
    parameters = dict(rule.rule_parameters or {})
    actions = getattr(rule, "actions", None)
    if actions is not None:
        # Left by an earlier fit(), with the name of that job.
        parameters.pop("action_json", None)
    return name, parameters, _make_actions(actions)


def _make_actions(actions: Any) -> list[Action]:  # noqa: ANN401 - the SDK's own
    """Of an ActionList, of one Action, or of none."""
    if actions is None:
        return []
    made = []
    for action in getattr(actions, "actions", (actions,)):
        settings = action.action_parameters
        if settings["name"] == "stoptraining":
            is_own_job = getattr(action, "use_default_training_job_prefix", False)
            prefix = "" if is_own_job else settings.get("training_job_prefix", "")
            made.append(Action(kind="stop", target=prefix))
        else:
            made.append(Action(kind=settings["name"], target=settings["endpoint"]))
    return made


def _place_source(spec: RuleSpec, source_dir: str | Path | None) -> RuleSpec:
    """A local source becomes a path in the source directory, which SageMaker carries along."""
    if not spec.source or spec.source.startswith("s3://"):
        return spec
    file = Path(spec.source)
    if not file.is_file():
        raise RuleInvalid(
            f"its source {spec.source} is not a file",
            fix="name the Python file with the rule's class",
        )
    if source_dir is None or not file.resolve().is_relative_to(Path(source_dir).resolve()):
        where = f"is not in {source_dir}" if source_dir else "must be in the source directory"
        raise RuleInvalid(
            f"its source {spec.source} {where}",
            fix="put it into the estimator's source_dir and pass that as source_dir=",
        )
    _require_class(file, spec.rule)
    place = file.resolve().relative_to(Path(source_dir).resolve()).as_posix()
    return replace(spec, rule=f"{place}:{spec.rule}", source="")


def _require_class(file: Path, name: str) -> None:
    """Without running it: the class may need packages that only the container has."""
    try:
        tree = ast.parse(file.read_bytes(), filename=str(file))
    except (SyntaxError, ValueError) as error:
        raise RuleInvalid(f"its source is not Python: {error}", fix=f"correct {file}") from None
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    if name not in classes:
        raise RuleInvalid(
            f"its source {file} has no class {name}",
            fix=f"rule_to_invoke is one of: {', '.join(classes) or 'none, the file has no class'}",
        )


def _require_makeable(spec: RuleSpec) -> None:
    """A misspelt parameter is said now, and not in the cloud after ten minutes of queue."""
    if spec.source or ":" in spec.rule:
        return  # of the user's own: only the container can load it
    try:
        make_rule(spec)
    except ImportError:  # no NumPy here: the container says the same at its start
        return


def _require_unique(names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise RuleInvalid(
            f"two rules are called {', '.join(twice)}",
            fix="give one of them a name of its own: Rule.sagemaker(…, name='second')",
        )


def _require_fitting(variables: Mapping[str, str]) -> None:
    if len(variables) > _MOST_VARIABLES:
        raise RuleInvalid(
            f"the rules take {len(variables)} variables; SageMaker takes {_MOST_VARIABLES}",
            fix="write them into stoker.toml of the source directory",
        )
    if len(variables.get(HOOK_VARIABLE, "")) > _VALUE_CHARACTERS:
        raise RuleInvalid(
            f"collections_to_save of all rules together take more than {_VALUE_CHARACTERS} "
            "characters, the most that SageMaker takes in a variable",
            fix="leave them out where the rule's own needs will do, or use debugger_hook_config=",
        )


# As the hook's own settings call them (stoker.debugging.hook.request).
_KEYS = {
    "save_interval": "every",
    "save_steps": "steps",
    "start_step": "start",
    "end_step": "end",
    "reductions": "reductions",
    "save_raw_tensor": "values",
    "save_shape": "shapes",
    "include_regex": "regex",
}
_IGNORED = ("save_histogram",)  # for TensorBoard; job.tensorboard() and smdebug itself make them
_DEFAULT = {"save_interval": "500"}
"""What the SDK adds by itself, and what the hook does by default."""


def make_hook_request(collections: Iterable[Any]) -> str:
    """One text for `CollectionConfig` objects (of any SDK); empty for none.

    Raises:
        RuleInvalid: two want the same collection saved differently, or a setting cannot be
            carried.
    """
    wanted: dict[str, dict[str, str]] = {}
    for collection in collections:
        name, settings = collection.name, _settings(collection)
        known = wanted.setdefault(name, settings)
        if known != settings and _DEFAULT not in (known, settings):
            raise RuleInvalid(
                f"two rules want the collection {name} saved differently: {known} and {settings}",
                fix="make their collections_to_save the same, or give one another name",
            )
        wanted[name] = settings if known == _DEFAULT else known
    if not wanted:
        return ""
    texts = [f"collections={','.join(wanted)}"]
    for name, settings in wanted.items():
        texts += [
            f"{name}.{_KEYS[key]}={text}"
            for key, text in settings.items()
            if (key, text) not in _DEFAULT.items()
        ]
    return " ".join(texts)


def _settings(collection: Any) -> dict[str, str]:  # noqa: ANN401 - the SDK's own
    given = {key: str(text) for key, text in (collection.parameters or {}).items()}
    settings = {**_DEFAULT, **{key: given[key] for key in given if key not in _IGNORED}}
    for key, text in settings.items():
        if key not in _KEYS or not text or any(letter.isspace() for letter in text):
            raise RuleInvalid(
                f"{key}={text!r:.80} of the collection {collection.name} cannot be carried",
                fix="set it by debugger_hook_config=, or write save_interval, save_steps, "
                "start_step, end_step, reductions, include_regex (without blanks)",
            )
    return settings
