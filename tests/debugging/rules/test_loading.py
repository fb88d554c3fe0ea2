"""Rules of the user's own: found by path, and every mistake in them explained."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest

from stoker.debugging.rule import Rule
from stoker.debugging.rules.loading import load_rule
from stoker.debugging.rules.smdebug_rule import SmdebugRule
from stoker.errors import RuleInvalid
from tests.debugging.rules.memory import Run, fired

LARGE_GRADIENT = """
    from stoker import Finding, Need, Rule, parameter


    class LargeGradient(Rule):
        '''A gradient is too large.'''

        threshold: float = parameter(10.0, "largest mean of |gradient|", minimum=0)

        def needs(self):
            return [Need(collection="gradients", reductions=("abs_mean",))]

        def check(self, step, tensors):
            for tensor in tensors.needed("gradients"):
                mean = tensor.reduction("abs_mean")
                if mean > self.threshold:
                    return Finding(message=f"mean of |{tensor.name}| is {mean:.3g}")
            return None
"""
SMDEBUG_RULE = """
    from smdebug.rules.rule import Rule


    class CustomGradientRule(Rule):
        '''Gradients on average.'''

        def __init__(self, base_trial, threshold=10.0):
            super().__init__(base_trial)
            self.threshold = float(threshold)

        def invoke_at_step(self, step):
            return False
"""


@pytest.fixture(autouse=True)
def _modules_are_forgotten(tmp_path):
    path, modules = sys.path.copy(), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if str(tmp_path) in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]


@pytest.fixture
def write(tmp_path):
    def writer(name: str, text: str = LARGE_GRADIENT) -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))
        return file

    return writer


def test_a_class_of_a_file_in_the_source_directory_is_a_rule(tmp_path, write):
    write("rules/my_rule.py")
    cls = load_rule("rules/my_rule.py:LargeGradient", folder=tmp_path)
    assert issubclass(cls, Rule)
    assert cls.__name__ == "LargeGradient"
    assert cls.parameters["threshold"].kind is float
    run = Run().save(0, {"gradient/Net_fc.weight": [1.0]})
    run.save(1, {"gradient/Net_fc.weight": [-30.0, 10.0]})
    assert fired(cls(), run) == [1]
    assert fired(cls({"threshold": "20"}), run) == []


def test_a_class_of_a_module_is_a_rule(tmp_path, write):
    write("users_package/__init__.py", "")
    write("users_package/rules.py")
    cls = load_rule("users_package.rules:LargeGradient", folder=tmp_path)
    assert cls.__module__ == "users_package.rules"


@pytest.mark.parametrize("is_file", [True, False])
def test_the_name_alone_is_looked_for_without_running_other_files(tmp_path, write, is_file):
    # As the service has it: source_s3_uri and rule_to_invoke.
    file = write("custom.py")
    write("train.py", "raise SystemExit('this is the training')")
    write("broken.py", "class")
    cls = load_rule("LargeGradient", folder=file if is_file else tmp_path)
    assert cls.__name__ == "LargeGradient"


def test_a_rule_may_import_what_is_next_to_it(tmp_path, write):
    write("limits_of_mine.py", "LIMIT = 3.5")
    write("rules/names_of_mine.py", "NAME = 'x'")
    own = "from limits_of_mine import LIMIT\nfrom names_of_mine import NAME\n"
    write("rules/my_rule.py", own + textwrap.dedent(LARGE_GRADIENT))
    cls = load_rule("rules/my_rule.py:LargeGradient", folder=tmp_path)
    assert sys.modules[cls.__module__].LIMIT == 3.5


def test_a_file_called_like_a_module_of_pythons_does_no_harm(tmp_path, write):
    write("json.py")
    import json

    cls = load_rule("json.py:LargeGradient", folder=tmp_path)
    assert cls.__name__ == "LargeGradient"
    assert sys.modules["json"] is json
    assert sys.path[0] != str(tmp_path)


def test_two_files_of_the_same_name_are_two_modules(tmp_path, write):
    write("a/rule.py")
    write("b/rule.py")
    classes = [load_rule(f"{n}/rule.py:LargeGradient", folder=tmp_path) for n in "ab"]
    assert classes[0] is not classes[1]
    assert classes[0].__module__ != classes[1].__module__


def test_a_rule_of_smdebugs_kind_comes_in_an_adapter(tmp_path, write):
    write("rule.py", SMDEBUG_RULE)
    cls = load_rule("rule.py:CustomGradientRule", folder=tmp_path)
    assert issubclass(cls, SmdebugRule)
    assert cls.__name__ == "CustomGradientRule"
    assert cls.__doc__ == "Gradients on average."
    assert cls.parameters["threshold"].default == 10.0


def refusal(reference: str, folder: Path) -> RuleInvalid:
    with pytest.raises(RuleInvalid) as caught:
        load_rule(reference, folder=folder)
    return caught.value


def test_a_missing_file_is_said_with_the_near_miss(tmp_path, write):
    write("rules/my_rule.py")
    error = refusal("rules/my_rules.py:LargeGradient", tmp_path)
    assert error.message == f"there is no file rules/my_rules.py in {tmp_path}"
    assert error.fix == "did you mean my_rule.py?"


def test_a_missing_class_is_said_with_those_there_are(tmp_path, write):
    file = write("my_rule.py")
    error = refusal("my_rule.py:Large", tmp_path)
    assert error.message == f"{file} has no class Large"
    assert error.fix == "it has these rules: LargeGradient"


def test_a_name_that_is_nowhere_or_in_two_files_is_said(tmp_path, write):
    write("a.py")
    assert "no class Nowhere" in refusal("Nowhere", tmp_path).message
    write("b.py")
    assert "in several files: a.py, b.py" in refusal("LargeGradient", tmp_path).message


@pytest.mark.parametrize("text", ["class LargeGradient: pass", "LargeGradient = 3"])
def test_what_is_not_a_rule_is_refused(tmp_path, write, text):
    write("my_rule.py", text)
    error = refusal("my_rule.py:LargeGradient", tmp_path)
    assert "is not a rule" in error.message
    assert "subclass of stoker.Rule" in error.fix


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch_of_tomorrow", "my_rule.py, line 1: import torch_of_tomorrow: ModuleNotFou"),
        ("x = 1\ny = x / 0", "my_rule.py, line 2: y = x / 0: ZeroDivisionError: division by zero"),
        ("class A(\n", "SyntaxError: '(' was never closed (my_rule.py, line 1)"),
        ("raise SystemExit(3)", "my_rule.py, line 1: raise SystemExit(3): SystemExit: 3"),
        ("raise GeneratorExit", "my_rule.py, line 1: raise GeneratorExit: GeneratorExit: "),
        ("import helper_of_mine", "helper_of_mine.py, line 2: oops: NameError: name 'oops' is"),
    ],
)
def test_an_error_in_the_users_code_is_shown_with_its_line(tmp_path, write, text, expected):
    write("helper_of_mine.py", "\noops\n")
    write("my_rule.py", text)
    error = refusal("my_rule.py:LargeGradient", tmp_path)
    assert error.message.startswith("my_rule.py cannot be imported: ")
    assert expected in error.message


def test_a_module_that_is_not_there_is_said(tmp_path):
    error = refusal("nowhere.rules:LargeGradient", tmp_path)
    assert "nowhere.rules cannot be imported: ModuleNotFoundError" in error.message


@pytest.mark.parametrize("reference", ["", "my_rule.py", "my_rule.py:", "rule.py:1st", "a b"])
def test_what_names_no_class_is_refused(tmp_path, reference):
    assert "names no class" in refusal(reference, tmp_path).message
