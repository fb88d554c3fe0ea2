"""Woken in every Python process of a worker by stoker_autoload.pth, before the user's first line.

Imports next to nothing at the start: this runs in each process the user's program starts.
"""

from __future__ import annotations

import sys

from stoker.worker.import_watch import call_after_import

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    from stoker.contract.job import Job
    from stoker.metrics.saved_steps import SavedSteps
    from stoker.profiling.steps.timed_calls import TimedCalls

_SIGUSR1 = 10  # `import signal` would cost a third of Python's own start


def wake() -> None:
    """Whole lines at once; stacks and traces on request; crashes and curves on file.

    Never raises.
    """
    if sys.excepthook is _leave_crash_file:
        return  # awake: Python reads the .pth files of some virtual environments twice
    _line_buffer()
    _dump_stacks_on_request()
    _trace_on_request()
    _record_steps_on_request()
    _try_on_request()
    _save_tensors_on_request()
    _leave_run_to_first_rank()
    # Until a script imports torch's SummaryWriter, this costs a comparison per import.
    call_after_import("torch.utils.tensorboard.writer", _adopt_summary_writer)
    sys.excepthook = _leave_crash_file


def _line_buffer() -> None:
    # One write per line: prompt without PYTHONUNBUFFERED, and ranks that share a pipe do not
    # cut each other's lines, which unbuffered output (text and newline apart) does.
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None and not sys.stdout.isatty():
        # torchrun starts its workers unbuffered, so that has to be taken back.
        reconfigure(line_buffering=True, write_through=False)


def _dump_stacks_on_request() -> None:
    if sys.stderr is None:
        return
    import faulthandler

    try:
        faulthandler.enable()
        faulthandler.register(_SIGUSR1, all_threads=True)
    except (OSError, ValueError, RuntimeError):
        return  # stderr is not a file here; the program starts anyway


def _record_steps_on_request() -> None:
    import os  # as below

    environ = os.environ  # noqa: TID251 - as below
    root = environ.get("STOKER_ROOT") or "/opt/ml"
    file = environ.get("SMPROFILER_CONFIG_PATH") or f"{root}/input/config/profilerconfig.json"
    if "auto" in environ.get("STOKER_PROFILE", "") or os.path.exists(file):
        from stoker.profiling.steps.timed_calls import MODULES, TimedCalls

        calls = TimedCalls()
        call_after_import("torch", lambda: _record_steps(calls))
        # Now: a library imports torch itself, and has given its functions away after that.
        for module in MODULES:
            call_after_import(module, lambda module=module: calls.after_import(module))  # type: ignore[misc] # mypy does not infer lambdas with defaults


def _record_steps(timed: TimedCalls) -> None:
    try:
        from stoker.debugging.hook.calls import OutermostCalls
        from stoker.profiling.steps.attach import record_steps

        listeners: list[OutermostCalls] = []
        recorder = record_steps(lambda enter: listeners.append(OutermostCalls(enter)))
        for calls in listeners:
            if "torch._dynamo" not in sys.modules:
                call_after_import("torch._dynamo", calls.shield)
        if recorder is not None:
            timed.start(recorder)
    except Exception as error:  # a setting that cannot be used, or another torch
        print(f"[stoker] warning: no steps are recorded: {error}", file=sys.stderr)


def _try_on_request() -> None:
    import os  # as below

    if os.environ.get("STOKER_TRY"):  # noqa: TID251 - as below
        call_after_import("torch", _apply_overrides)


def _apply_overrides() -> None:
    # An experiment without its change would be reported as one that does not help: so it fails.
    from stoker.profiling.overrides import apply_overrides

    apply_overrides()


def _trace_on_request() -> None:
    import os  # Python itself has loaded it by now

    asked = os.environ.get("STOKER_PROFILE")  # noqa: TID251 - the Job would have to be read for it
    if asked and asked not in ("auto", "off"):
        # What trains with torch imports this; a process that does not pays nothing.
        call_after_import("torch.optim.optimizer", _trace_steps)


def _trace_steps() -> None:
    try:
        from stoker.profiling.unmodified_script import watch_steps

        watch_steps()
    except Exception as error:  # a torch without such hooks
        print(f"[stoker] warning: STOKER_PROFILE does not work here: {error}", file=sys.stderr)


def _save_tensors_on_request() -> None:
    import os  # as above

    environ = os.environ  # noqa: TID251 - as above
    root = environ.get("STOKER_ROOT") or "/opt/ml"
    file = environ.get("SMDEBUG_CONFIG_FILE_PATH") or f"{root}/input/config/debughookconfig.json"
    rules = f"{root}/output/stoker/rule_plan.json"  # bus.rule_plan has its name, too
    if environ.get("STOKER_DEBUG") or os.path.exists(rules) or os.path.exists(file):
        call_after_import("torch", _attach_hook)


def _leave_run_to_first_rank() -> None:
    """MLflow's clients take the run of MLFLOW_RUN_ID: of several ranks the first has it."""
    import os  # as above

    environ = os.environ  # noqa: TID251 - as above
    if "MLFLOW_RUN_ID" not in environ:
        return
    ranks = (environ.get("RANK"), environ.get("OMPI_COMM_WORLD_RANK"))
    if any(rank not in (None, "", "0") for rank in ranks):
        for name in ("MLFLOW_RUN_ID", "MLFLOW_RUN_NAME"):
            environ.pop(name, None)
    else:
        call_after_import("mlflow.tracking.fluent", _watch_experiment)


def _watch_experiment() -> None:
    from stoker.worker.mlflow_run import watch_experiment

    watch_experiment()


def _attach_hook() -> None:
    try:
        from stoker.debugging.hook.unmodified_script import attach_to_job

        hook = attach_to_job(_open_saved_steps)
        if hook is not None and "torch._dynamo" not in sys.modules:
            call_after_import("torch._dynamo", hook.shield)
    except Exception as error:  # a setting that cannot be used, or a library that is missing
        print(f"[stoker] warning: no tensors are saved: {error}", file=sys.stderr)


def _open_saved_steps(job: Job) -> SavedSteps | None:
    try:
        from stoker.metrics.saved_steps import open_saved_steps
    except ImportError:
        return None  # crc32c is missing here; the tensors are saved anyway
    return open_saved_steps(job)


def _adopt_summary_writer() -> None:
    try:
        from stoker.metrics.stock import adopt
    except ImportError:
        return  # crc32c is missing here; the stock writer works without it
    adopt()


def _leave_crash_file(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if not issubclass(kind, KeyboardInterrupt):  # Ctrl-C is not a crash
        _write_crash(kind, error, trace)
    sys.__excepthook__(kind, error, trace)


def _write_crash(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    # Only a process that is about to end comes here: now imports are free.
    import os
    import traceback

    from stoker.bus.crash import FOLDER_VARIABLE, write_crash

    environ = os.environ  # noqa: TID251 - set by launcher and torchrun for this very process
    folder = environ.get(FOLDER_VARIABLE)
    if folder:
        # The message may be a megabyte: frames and message are kept apart.
        frames = "".join(traceback.format_tb(trace))
        write_crash(
            folder,
            error=_describe(kind, error),
            traceback=frames,
            rank=environ.get("RANK", ""),
        )


def _describe(kind: type[BaseException], error: BaseException) -> str:
    """Type and message, the telling line first, the errors of a group named."""
    import traceback

    lines = [line.rstrip("\n") for line in traceback.format_exception_only(kind, error)]
    if isinstance(error, SyntaxError):
        lines = [lines[-1].strip(), *lines[:-1]]
    if isinstance(error, BaseExceptionGroup):
        lines += [_describe(type(inner), inner) for inner in error.exceptions[:3]]
    return "\n".join(lines)
