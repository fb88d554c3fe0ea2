"""The job as a script sees it: the contract's `Job`, and what a script does with it."""

from __future__ import annotations

from stoker.contract.job import Job as ContractJob
from stoker.contract.job import read_job

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Literal, SupportsFloat, SupportsInt

    from stoker.metrics.writer import Writer
    from stoker.profiling.traces import Traces

# Each method imports its capability itself: a script pays at its start for what it uses only.


class Job(ContractJob):
    """Everything SageMaker says about this job, metrics and traces."""

    def log(
        self,
        step: SupportsInt,
        metrics: Mapping[str, SupportsFloat] | None = None,
        /,
        *,
        all_ranks: bool = False,
        **named: SupportsFloat,
    ) -> None:
        """Logs metrics of one step: to TensorBoard, metrics.jsonl, stdout and SageMaker.

        Returns at once; a thread does the work, and training continues whatever happens
        there. Python, NumPy and tensor scalars are taken, also those on a GPU.

        Args:
            step: of training; what a resumed job logs replaces what was logged from there on.
            metrics: for names that are not Python names: `job.log(3, {"train/loss": loss})`.
            all_ranks: the others log too, into TensorBoard runs and files of their own.
            named: metrics by name.

        Raises:
            TypeError: a value is not one number.

        Example:
            >>> job.log(12, loss=0.5, accuracy=accuracy_tensor)
        """
        from stoker.metrics.log import open_log

        open_log(self).add(step, {**metrics, **named} if metrics else named, all_ranks=all_ranks)

    def should_stop(self) -> bool:
        """Whether to leave the loop now: SIGTERM has come, or a rule wants the job to end.

        Call it once before the loop, too: from then on SIGTERM is noted instead of fatal. A
        second one ends the process at once. `stoker.checkpoints` does all of this by itself.
        """
        from stoker.bus.stop import find_stop

        return find_stop(self.paths) is not None

    def tensorboard(self, *, purge_step: int | Literal["auto"] | None = "auto") -> Writer:
        """A writer with the whole API of `torch.utils.tensorboard.SummaryWriter`, only faster.

        It writes where SageMaker syncs from while the job runs; each rank but the first into a
        run of its own.

        Args:
            purge_step: TensorBoard drops what earlier attempts wrote from this step on. `auto`
                takes the first step above zero that a resumed job writes a scalar for.

        Example:
            >>> writer = job.tensorboard()
            >>> writer.add_histogram("weights", model.fc.weight, step)
        """
        from stoker.metrics.writer import open_writer

        return open_writer(self, purge_step=purge_step)

    def profile(
        self,
        *,
        wait: int = 1,
        warmup: int = 1,
        active: int = 3,
        repeat: int = 1,
        to: Literal["tensorboard", "output"] = "tensorboard",
    ) -> Traces:
        """Traces some steps: operators, shapes, memory and stacks, for TensorBoard's profiler.

        Outside its windows a step costs microseconds; a fault of it never ends the training.

        Args:
            wait: steps to let pass before each trace.
            warmup: steps to warm the profiler up, so that the trace is not distorted by it.
            active: steps to record, 50 at most.
            repeat: how many traces, 20 at most; 0 takes as many as there are.
            to: `tensorboard` is synced while the job runs, `output` is part of output.tar.gz.

        Raises:
            ValueError: there are no such numbers of steps, or no such place.

        Example:
            >>> with job.profile() as profile:
            ...     for batch in batches:
            ...         train(batch)
            ...         profile.step()
        """
        from stoker.profiling.traces import open_traces

        return open_traces(self, wait=wait, warmup=warmup, active=active, repeat=repeat, to=to)

    @property
    def metrics_file(self) -> Path:
        """Where `log` writes one JSON object a line; part of output.tar.gz."""
        from pathlib import Path

        from stoker.metrics.jsonl import metrics_file

        return Path(metrics_file(self))


def read_script_job(
    *, environ: Mapping[str, str] | None = None, root: str | os.PathLike[str] | None = None
) -> Job:
    """Reads `/opt/ml` and the environment. Works on a laptop with neither.

    Args:
        environ: instead of this process's own environment.
        root: instead of /opt/ml; `STOKER_ROOT` does the same from outside.

    Raises:
        ConfigInvalid: a config file is damaged or contradicts itself.
    """
    return Job(**vars(read_job(environ=environ, root=root)))
