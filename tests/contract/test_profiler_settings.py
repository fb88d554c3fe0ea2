"""What profilerconfig.json asks for, as stock estimators write it."""

from __future__ import annotations

from stoker.contract.paths import Paths
from stoker.contract.profiler import StepRange, make_settings


def settings_of(**parameters):
    config = {"ProfilingIntervalInMilliseconds": 500, "ProfilingParameters": parameters}
    return make_settings(config, Paths(root="/opt/ml"), {})


def test_the_sdks_framework_profile_is_read_with_the_comma_at_its_end():
    # As sagemaker 2.257 sends FrameworkProfile(detailed_profiling_config=…, …).
    found = settings_of(
        DetailedProfilingConfig='{"StartStep": 2, "NumSteps": 1, }',
        DataloaderProfilingConfig='{"StartStep": 0, "NumSteps": 10, "MetricsRegex": ".*", }',
        PythonProfilingConfig='{"StartStep": 9, "NumSteps": 3, "ProfilerName": "cprofile", '
        '"cProfileTimer": "total_time", }',
    )
    assert found.complaints == ()
    assert found.detailed == StepRange(first=2, last=2)
    assert found.dataloader == StepRange(first=0, last=9)
    assert found.python == StepRange(first=9, last=11)
    assert found.python_timer == "total_time"


def test_what_is_not_an_object_is_named():
    found = settings_of(DetailedProfilingConfig="{'StartStep': 5", PythonProfilingConfig="[5]")
    assert found.detailed is None
    assert [line.partition(" is ")[0] for line in found.complaints] == [
        "DetailedProfilingConfig",
        "PythonProfilingConfig",
    ]
