"""Which runs are in which trials and experiments."""

from __future__ import annotations

from stoker.tracking.records import Trial
from stoker.tracking.store import RunStore

MEMBER = "member"
"""The kind of the link from a trial to its run."""

DEFAULT_EXPERIMENT = "Default"
"""MLflow's, with the id 0: of runs that have no other."""


class Memberships:
    """The trials of runs, as they are now."""

    def __init__(self, store: RunStore) -> None:
        self.trials = {trial.name.lower(): trial for trial in store.read_all(Trial)}
        self.trials_of: dict[str, list[Trial]] = {}
        self.runs_of: dict[str, list[str]] = {}
        for link in store.links():
            trial = self.trials.get(link.source.removeprefix("trial/"))
            if link.kind != MEMBER or trial is None:
                continue
            run = link.target.removeprefix("run/")
            self.trials_of.setdefault(run, []).append(trial)
            self.runs_of.setdefault(trial.name.lower(), []).append(run)

    def parents(self, run: str) -> list[dict[str, str]]:
        """Trials and experiments of a run, as the API lists them."""
        return [
            {"TrialName": trial.name, "ExperimentName": trial.experiment}
            for trial in self.trials_of.get(run.lower(), ())
        ]

    def experiment_of(self, run: str) -> str:
        """The experiment of a run's first trial; MLflow knows no more than one."""
        trials = self.trials_of.get(run.lower(), ())
        return trials[0].experiment if trials else DEFAULT_EXPERIMENT
