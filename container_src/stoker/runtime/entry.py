"""The `train` program: read, prepare, plan, launch, watch, report."""

from __future__ import annotations

import os
import time

from stoker import __version__
from stoker.contract.code import Code, find_code
from stoker.contract.files import read_regular
from stoker.contract.job import Job, read_job
from stoker.contract.outcome import Outcome
from stoker.contract.secrets import Masker
from stoker.errors import PreparationFailed
from stoker.runtime.crashes import CrashFolder
from stoker.runtime.distribution import choose_distribution
from stoker.runtime.folders import make_folders, make_intermediate_folder
from stoker.runtime.guard import Stopped, run_guarded
from stoker.runtime.log import Log
from stoker.runtime.plan import LaunchPlan, make_fetch_step, make_plan, make_toolkit_plan
from stoker.runtime.program import find_program
from stoker.runtime.requirements import read_constraints
from stoker.runtime.watch import Ended, Watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stoker.runtime.mlflow_run import MlflowRun
    from stoker.runtime.rules import JobRules
    from stoker.runtime.signals import Signals
    from stoker.runtime.step import LaunchStep

_USAGE = """usage: train [--dry-run]

Runs the SageMaker training job described under /opt/ml (or STOKER_ROOT) and the environment.
  --dry-run   print the plan and stop before anything is started
"""
# EX_USAGE of sysexits.h.
_USAGE_ERROR = 64


def train(argv: list[str], signals: Signals) -> int:
    """Runs the job and returns the container's exit code."""
    unknown = [argument for argument in argv if argument != "--dry-run"]
    if unknown:
        os.write(2, _USAGE.encode())
        return 0 if unknown == ["--help"] else _USAGE_ERROR
    watch = Watch(signals, Log())
    dry_run = "--dry-run" in argv
    code = run_guarded(lambda: _run(watch, dry_run=dry_run), signals=signals, log=watch.log)
    if watch.profiler is not None:
        watch.profiler.close()
    return code


def _run(watch: Watch, *, dry_run: bool) -> Outcome:
    job = read_job()
    mask = Masker(job.environ, job.hyperparameters.raw)
    watch.log.level, watch.log.mask = job.log_level, mask
    _greet(job, watch.log)
    if not dry_run:
        start_profiler(job, watch)
    with CrashFolder(job.environ.get("TMPDIR", "/tmp")) as crash_dir:  # noqa: S108 - private
        if choose_distribution(job).launcher == "toolkit":
            folder = job.paths.code_dir
            plan = make_toolkit_plan(job, crash_dir=crash_dir, mask=mask)
        else:
            code = _find_code(job, watch.log)
            step = make_fetch_step(job, code, mask)
            if step and dry_run:
                _show_steps([step], watch.log)
                watch.log.info("the rest is planned once the code is there")
                return Outcome(kind="success", exit_code=0, reason="dry run")
            folder = _prepare_code(job, code, step, watch)
            program = find_program(folder, code.entry_point)
            if program.requirements is not None:  # pip shows its addresses, with their tokens
                content = read_regular(program.requirements, follow_links=True)
                mask.learn(content.decode("utf-8", "replace"))
            plan = make_plan(job, program, crash_dir=crash_dir, mask=mask)
        rules = find_rules(job, folder, watch.log)
        if rules is not None:
            plan = plan.replace(preparation=(*plan.preparation, rules.make_check_step()))
        if dry_run:
            _show_steps([*plan.preparation, plan.worker], watch.log)
            return Outcome(kind="success", exit_code=0, reason="dry run")
        started = time.time()
        outcome = _carry_out(job, plan, rules, watch, crash_dir)
    # As above: hashes and package names cost what a start must not.
    from stoker.runtime.run_file import write_run_file

    write_run_file(job, outcome, code_dir=folder, started=started, mask=watch.log.mask)
    return outcome


def _carry_out(
    job: Job, plan: LaunchPlan, rules: JobRules | None, watch: Watch, crash_dir: str
) -> Outcome:
    for step in plan.preparation:
        prepare(step, watch)
    make_folders(job, watch.log)
    if plan.distribution.launcher != "toolkit":  # it makes, and uploads, the folder itself
        make_intermediate_folder(job, watch.log)
    _warn(job, plan, watch.log)
    _show_steps([plan.worker], watch.log)
    # A stop that came between two steps had no child to go to.
    if watch.signals.stop_signal is not None:
        raise Stopped
    mlflow = _begin_mlflow_run(job, watch, crash_dir)
    worker = plan.worker if mlflow is None else mlflow.give_to(plan.worker)
    ended = run_worker(job, worker, rules, watch)
    # Not before the worker has started: diagnosing costs a tenth of the start.
    from stoker.runtime.finish import make_outcome

    outcome = make_outcome(
        job,
        ended,
        crash_dir=crash_dir,
        launcher=plan.distribution.launcher,
        mask=watch.log.mask,
    )
    write_pages(job, outcome, rules, watch)
    if mlflow is not None:
        mlflow.end(outcome)
    return outcome


def write_pages(job: Job, outcome: Outcome, rules: JobRules | None, watch: Watch) -> None:
    """On the leader: of the rules, and of the profile, if the job has them."""
    has_rules = rules is not None and rules.is_evaluated
    if not job.is_leader or not (has_rules or watch.profiler is not None):
        return
    from stoker.runtime.helper import PROFILE_PAGE, RULES_PAGE, write_page

    pages = [RULES_PAGE] if has_rules else []
    pages += [PROFILE_PAGE] if watch.profiler is not None and watch.profiler.is_on else []
    for module in pages:
        write_page(
            module,
            job,
            outcome,
            code_dir=job.paths.code_dir,
            signals=watch.signals,
            log=watch.log,
        )


def _begin_mlflow_run(job: Job, watch: Watch, crash_dir: str) -> MlflowRun | None:
    """The job's run on the tracking server of its environment; None, and at once, if none is."""
    if "MLFLOW_TRACKING_URI" not in job.environ:
        return None
    # Only a job with a tracking server pays for it.
    from stoker.runtime.mlflow_run import begin_run

    return begin_run(job, watch, crash_dir)


def run_worker(job: Job, worker: LaunchStep, rules: JobRules | None, watch: Watch) -> Ended:
    """Runs the worker and the evaluator of its rules, and marks the end of what they read."""
    started = time.monotonic()
    start_sidecar = None if rules is None else lambda: rules.start(worker)
    ended = watch.run(worker, start_sidecar, prepare_end=_load_what_the_end_needs)
    if watch.profiler is not None:
        watch.profiler.note(worker.name, started, is_worker=True)
        watch.profiler.stop()
    is_stopped = ended.stop_signal is not None and ended.stopped_by is None
    if rules is not None and is_stopped:
        rules.tell_stopped()  # before the end is marked: the evaluator then concludes
    # Before rules.finish(): the evaluator waits for the marker to know that no step follows.
    if rules is not None or _may_have_saved(job):
        from stoker.runtime.finish import write_end_markers

        write_end_markers(job, watch.log, has_rules=rules is not None)
    if rules is not None:
        rules.finish(watch.signals)
    return ended


def _load_what_the_end_needs() -> None:
    """While the worker runs, and nothing waits for this process."""
    for module in ("stoker.runtime.finish", "stoker.runtime.run_file", "hashlib"):
        __import__(module)


def start_profiler(job: Job, watch: Watch) -> None:
    """Starts the sampler, if the job is profiled."""
    if not job.services.profiler and not job.environ.get("STOKER_PROFILE"):
        return
    # Only a job that is profiled pays for it.
    from stoker.runtime.profiler import JobProfiler

    watch.profiler = JobProfiler(job, watch.log)
    watch.profiler.start()


def find_rules(job: Job, folder: str, log: Log) -> JobRules | None:
    """The rules of the job's environment or of stoker.toml; None, and at once, if none are."""
    if not job.environ.get("STOKER_RULES") and not _names_rules(f"{folder}/stoker.toml"):
        return None
    # Only a job with rules pays for it.
    from stoker.runtime.rules import JobRules

    return JobRules(job, folder, log)


def _names_rules(file: str) -> bool:
    try:
        # Only the word: the check reads the file as TOML, in a process of its own.
        return b"rules" in read_regular(file, follow_links=True)
    except OSError:
        return False


def _may_have_saved(job: Job) -> bool:
    services = job.services
    if services.debug_hook or services.profiler:
        return True
    return any(os.path.isdir(f"{job.paths.output_dir}/{n}") for n in ("tensors", "profiler"))


def _find_code(job: Job, log: Log) -> Code:
    code = find_code(
        job.paths,
        hyperparameters=job.hyperparameters,
        channels=job.channels,
        environ=job.environ,
    )
    also = "; not used: " + ", ".join(map(str, code.ignored)) if code.ignored else ""
    log.info(f"code: {code.source}{also}")
    return code


def _prepare_code(job: Job, code: Code, step: LaunchStep | None, watch: Watch) -> str:
    """Returns the folder the code runs in."""
    if step is None:
        return code.source.location
    prepare(step, watch)
    return job.paths.code_dir


def prepare(step: LaunchStep, watch: Watch) -> None:
    """Runs a step that must succeed before the next."""
    if watch.signals.stop_signal is not None:
        raise Stopped
    watch.log.info(f"{step.name} …")
    started = time.monotonic()
    ended = watch.run(step)
    if watch.profiler is not None:
        watch.profiler.note(step.name, started, is_worker=False)
    if ended.exit_code != 0 and ended.stop_signal is None:
        raise _preparation_failed(step, ended)
    if watch.signals.stop_signal is not None:
        raise Stopped
    watch.log.info(f"{step.name}: done in {time.monotonic() - started:.1f} s")


def _preparation_failed(step: LaunchStep, ended: Ended) -> PreparationFailed:
    message, _, fix = _last_words(ended).partition("\n  fix: ")
    # Loaded only now, as the diagnosis is.
    from stoker.runtime.hints import find_install_fix

    found = find_install_fix(ended.stdout_tail + ended.stderr_tail, read_constraints())
    error = PreparationFailed(f"{step.name} failed: {message}", fix=fix or found or step.fix)
    if fix:  # one of our helpers, which knows more precisely what is wrong
        error.exit_code = ended.exit_code
    return error


def _last_words(ended: Ended) -> str:
    """What a failed step said: pip's errors and conflicts first, else its last lines."""
    tail = ended.stderr_tail.strip() or ended.stdout_tail.strip()
    if "\n  fix: " in tail:
        return tail
    lines = [line for line in tail.splitlines() if line and not line.startswith("[stoker]")]
    errors = [line for line in lines if line.startswith("ERROR: ")]
    # pip tells the conflict on stdout and only its summary on stderr.
    conflicts = [line.strip() for line in ended.stdout_tail.splitlines() if "(constraint)" in line]
    kept = [*errors, *conflicts] or lines[-5:]
    return "\n".join(kept)[:600]


def _greet(job: Job, log: Log) -> None:
    cluster, hardware = job.cluster, job.hardware
    place = f"{cluster.current_host} ({cluster.instance_type})"
    if len(cluster.hosts) > 1:
        place += f", one of {len(cluster.hosts)} hosts led by {job.leader}"
    devices = f"{hardware.cpus} CPUs, {hardware.gpus or 'no'} GPUs"
    log.info(f"stoker {__version__}: job {job.name or '(unnamed)'} on {place}, {devices}")
    for complaint in job.services.complaints:
        log.warning(f"{complaint}; continuing without it")


def _warn(job: Job, plan: LaunchPlan, log: Log) -> None:
    for key, text in job.hyperparameters.changed_texts().items():
        log.warning(
            f"hyperparameter {key}={job.hyperparameters.raw[key]} reaches the command line as "
            f"{text}, as with the stock toolkit; send it JSON-quoted to keep the text, or use "
            "stoker.job().params()"
        )
    if plan.left_out:
        log.warning(
            f"left out of the environment, too long or not a legal name: "
            f"{', '.join(plan.left_out[:10])}; the script can read "
            f"{job.paths.config_file('hyperparameters.json')}"
        )


def _show_steps(steps: list[LaunchStep], log: Log) -> None:
    for step in steps:
        masked = [log.mask(argument) for argument in step.argv]  # before they are shortened
        shown = [text if len(text) <= 200 else f"{text[:200]}…" for text in masked]
        log.info(f"run: {' '.join(shown)[:2000]}   (in {step.folder})")
