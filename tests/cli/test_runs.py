"""`stoker runs` on a store that holds what three trainings left; no server runs."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import shutil
import subprocess
import tarfile

import pytest

from stoker.cli.main import main
from stoker.platform.model.root import Root, open_root
from stoker.tracking.records import Artifact, Experiment, Link, Run, Trial
from stoker.tracking.series import Point
from stoker.tracking.store import RunStore

SCRIPT = "print('hello')\nlr = {lr}\n"


@pytest.fixture
def root(tmp_path) -> Root:
    made = open_root(tmp_path / "root")
    store = RunStore(made.runs_database)
    store.add(Experiment(name="Vision", id="1", created=1.0, modified=1.0))
    store.add(Trial(name="vision-trial", experiment="Vision", created=1.0, modified=1.0))
    for number, lr in enumerate((0.5, 0.01, 0.001)):
        name = f"job-{number}"
        code = made.s3_dir / f"bucket/code/{number}/sourcedir.tar.gz"
        code.parent.mkdir(parents=True)
        with tarfile.open(code, "w:gz") as archive:
            content = SCRIPT.format(lr=lr).encode()
            member = tarfile.TarInfo("train.py")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        store.add(
            Run(
                name=f"{name}-aws-training-job",
                id=f"{number}" * 32,
                created=100.0 + number,
                modified=100.0,
                started=100.0 + number,
                ended=160.0,
                status="Completed",
                parameters={"lr": lr, "opt": "adam"},
                outputs={
                    "SageMaker.ModelArtifact": Artifact(uri=f"s3://bucket/{name}/model.tar.gz")
                },
                source=f"arn:aws:sagemaker:us-east-1:000000000000:training-job/{name}",
                lineage={
                    "inputs": {
                        "train": {
                            "uri": f"s3://bucket/{'job-0' if number == 1 else 'data'}",
                            "objects": 2,
                            "bytes": 2048,
                            "hash": "sha256:aaaa",
                        }
                    },
                    "image": {"name": "stoker:cpu", "digest": f"sha256:{number // 2}"},
                    "source_code": {
                        "uri": f"s3://bucket/code/{number}/sourcedir.tar.gz",
                        "hash": f"sha256:{number}",
                        "git_commit": "0123456789abcdef",
                        "git_dirty": number == 1,
                    },
                    "packages": {"torch": f"2.13.{number}"},
                },
            )
        )
        store.log(
            f"{name}-aws-training-job",
            [("loss", Point(i, 1000 + i, 1 / (number + i + 1))) for i in range(50)]
            + [("odd", Point(0, 1000, math.nan))],
        )
        if number < 2:
            store.link(
                Link(
                    source="trial/vision-trial",
                    target=f"run/{name}-aws-training-job",
                    kind="member",
                    created=1.0,
                )
            )
    store.close()
    return made


@pytest.fixture
def runs(root, capsys):
    def call(*words: str) -> str:
        verb, *rest = words
        assert main(["runs", verb, *rest, "--root", str(root.folder)]) == 0
        return capsys.readouterr().out

    return call


def test_runs_are_listed_filtered_and_sorted(runs, root, capsys):
    table = runs("ls").splitlines()
    assert table[0].split() == [
        "RUN",
        "EXPERIMENT",
        "STATUS",
        "STARTED",
        "DURATION",
        "lr",
        "loss",
        "odd",
    ]
    assert [line.split()[0] for line in table[1:]] == ["job-2", "job-1", "job-0"]

    def names(*words: str) -> list[str]:
        return [each["name"] for each in json.loads(runs("ls", "--json", *words))]

    assert names("--sort", "metric:loss") == ["job-0", "job-1", "job-2"]
    assert names("--sort", "metric:loss.max", "--reverse") == ["job-2", "job-1", "job-0"]
    assert names("--sort", "param:lr", "--reverse") == ["job-2", "job-1", "job-0"]
    assert names("--filter", "params.lr < 0.1 and metrics.loss < 1") == ["job-2", "job-1"]
    assert names("--experiment", "vision", "--filter", "status = 'Completed'") == [
        "job-1",
        "job-0",
    ]
    for words, hint in (
        (("ls", "--sort", "speed"), "metric:NAME"),
        (("ls", "--filter", "metrics.loss <"), "write it as"),
        (("ls", "--experiment", "none"), "known: Default, Vision"),
        (("show", "jobb-1"), "did you mean job-1"),
        (("diff", "job-1"), "two or more"),
        (("tag", "job-1", "team"), "team=vision"),
    ):
        assert main(["runs", *words, "--root", str(root.folder)]) == 2
        assert hint in capsys.readouterr().err


def test_one_run_is_shown_with_its_lineage(runs):
    shown = runs("show", "0" * 8)
    assert re.search(r"loss +0\.02 +0\.02 +1 +50 +49", shown)
    tree = runs("lineage", "job-0").splitlines()
    assert any("code" in line and "git 0123456789ab" in line for line in tree)
    # The second run has read what the first one made, and made a model of its own.
    assert any("read by job-1" in line for line in tree)
    assert any("s3://bucket/job-1/model.tar.gz" in line for line in tree)
    back = json.loads(runs("lineage", "job-1", "--json"))
    data = back["children"][0]["children"][0]
    assert data["children"][0]["text"] == "made by job-0"


def test_the_differences_of_runs_are_parameters_data_packages_and_code(runs):
    found = json.loads(runs("diff", "job-0", "job-1", "job-2", "--json"))["differences"]
    assert found["parameters"] == {"lr": ["0.5", "0.01", "0.001"]}
    assert found["packages"] == {"torch": ["2.13.0", "2.13.1", "2.13.2"]}
    assert found["image"]["image"][0] != found["image"]["image"][2]
    assert set(found["code"]) == {"train.py (job-1)", "train.py (job-2)"}
    text = runs("diff", "job-0", "job-1")
    assert "-lr = 0.5" in text
    assert "+lr = 0.01" in text
    assert "and changes" in text


def test_tags_are_changed_and_runs_removed(runs):
    runs("tag", "job-0", "team=a", "note=x=y")
    assert runs("tag", "job-0", "--remove", "team") == "note=x=y\n"
    runs("rm", "job-0", "job-2")
    assert [each["name"] for each in json.loads(runs("ls", "--json"))] == ["job-1"]


def test_runs_are_exported_as_tables(runs, tmp_path):
    rows = list(csv.DictReader(io.StringIO(runs("export", "--csv", "-", "--sort", "name"))))
    assert [row["params.lr"] for row in rows] == ["0.001", "0.01", "0.5"]
    file = tmp_path / "points.csv"
    runs("export", "job-1", "--points", "--csv", str(file))
    points = list(csv.DictReader(io.StringIO(file.read_text())))
    assert (len(points), points[49]["step"]) == (51, "49")


def test_a_job_of_elsewhere_is_imported_with_its_curves(runs, root, tmp_path, capsys):
    folder = tmp_path / "output/data/stoker"
    folder.mkdir(parents=True)
    facts = {
        "schema": "stoker.run/1", "job": "far-away", "arn": "arn:x", "status": "Completed",
        "message": "", "started": 10.0, "ended": 20.0, "hyperparameters": {"lr": "0.3"},
        "inputs": {"train": {"uri": "s3://b/k", "hash": "sha256:0"}}, "packages": {"torch": "2"},
        "metrics": {"loss": {"count": 2, "min": 0.1, "max": 0.5, "last": 0.1, "step": 9}},
        "image": {"name": "i"}, "source_code": {}, "git_commit": "0123456", "python": "3.11",
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(facts))
    lines = [{"step": s, "time": 15.0, "metrics": {"loss": 1 / (s + 1)}} for s in (0, 1, 2, 1)]
    text = "".join(f"{json.dumps(line)}\n" for line in lines) + '{"step": 3, "met'
    (folder / "metrics.jsonl").write_text(text)
    archive = tmp_path / "output.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(folder, "stoker")
    assert "far-away-aws-training-job" in runs("import", str(archive), "--experiment", "Cloud")
    found = json.loads(runs("show", "far-away", "--json"))
    assert (found["experiment"], found["parameters"]) == ("Cloud", {"lr": 0.3})
    assert (found["metrics"]["loss"]["count"], found["metrics"]["loss"]["step"]) == (3, 2)
    assert "there is a run of this name" in runs("import", str(tmp_path / "output"))
    whole = json.loads((folder / "run.json").read_text())
    for damage in (
        {"started": []},
        {"ended": 1e300},
        {"inputs": {"train": {"uri": "s3://b/k", "bytes": "many"}}},
        {"source_code": {"uri": "s3://b/k", "objects": None}},
        {"packages": ["torch"]},
        {"metrics": {"loss": {"last": 1.0, "step": 2**70}}, "job": "without-lines"},
    ):
        (folder / "run.json").write_text(json.dumps({**whole, "job": "other", **damage}))
        if "metrics" in damage:
            (folder / "metrics.jsonl").unlink()
        assert main(["runs", "import", str(folder), "--root", str(root.folder)]) == 1, damage
        assert "damaged" in capsys.readouterr().out
    (tmp_path / "empty").mkdir()
    assert main(["runs", "import", str(tmp_path / "empty"), "--root", str(root.folder)]) == 2


@pytest.mark.browser
@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not here to draw the page")
def test_the_page_draws_curves_scatter_axes_and_lineage(runs, tmp_path):
    page = tmp_path / "runs.html"
    runs("page", "--html", str(page))
    assert not re.search(r"(?:src|href)=|@import|url\(", page.read_text())  # offline
    argv = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    argv += [f"--user-data-dir={tmp_path}/browser", "--virtual-time-budget=5000", "--dump-dom"]
    environ = {**os.environ, "HOME": str(tmp_path)}
    done = subprocess.run(
        [*argv, page.as_uri()], capture_output=True, text=True, timeout=300, env=environ
    )
    drawn = done.stdout
    assert drawn.count('type="checkbox" aria-label') == 3
    assert drawn.count(">NaN<") == 3  # not an empty cell
    charts = {
        name: drawn.partition(f'id="{name}"')[2].partition("</svg>")[0]
        for name in ("curves", "scatter", "parallel", "lineage")
    }
    assert charts["curves"].count('class="line"') == 3
    assert charts["scatter"].count("<circle") == 3
    assert charts["parallel"].count('class="line mark"') == 3
    assert charts["lineage"].count('class="box run"') == 3
