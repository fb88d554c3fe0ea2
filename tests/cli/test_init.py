"""`stoker init`: the project that it writes runs, and no file of the user is changed."""

from __future__ import annotations

import json
import subprocess
import sys

from stoker.cli.main import main

SCRIPT = "src/train.py"


def test_the_project_trains_as_a_plain_script_and_as_a_job(cli, tmp_path):
    assert main(["init", str(tmp_path / "project")]) == 0
    project = tmp_path / "project"
    names = {str(p.relative_to(project)) for p in project.rglob("*") if p.is_file()}
    assert names == {
        ".gitignore",
        "requirements.txt",
        "src/train.py",
        "stoker.toml",
        "train.ipynb",
    }
    # With several threads each step of torch waits for all of them: seconds, on busy cores.
    threads = "OMP_NUM_THREADS=1"
    script = ["env", threads, sys.executable, SCRIPT, "--epochs", "2"]
    done = subprocess.run(script, cwd=project, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (project / "stoker-job/model/model.pt").is_file()

    cli.folder = project
    trained = cli.run(
        "train", SCRIPT, "--param", "epochs=3", "--env", threads, "--engine", "process",
        "--root", str(cli.platform),
    )  # fmt: skip
    assert trained.returncode == 0, trained.stdout + trained.stderr
    assert "epoch 2" in trained.stdout
    assert "accuracy" in trained.stdout.partition("train: completed")[2]


def test_the_notebook_is_valid_and_trains_the_script_of_the_project(tmp_path):
    assert main(["init", str(tmp_path)]) == 0
    notebook = json.loads((tmp_path / "train.ipynb").read_text())
    code = [cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for lines in code:
        compile("".join(lines), "train.ipynb", "exec")
    assert any('source_dir="src"' in "".join(lines) for lines in code)


def test_a_file_that_is_there_is_left_as_it_is(tmp_path, capsys):
    (tmp_path / "stoker.toml").write_text("mine")
    assert main(["init", str(tmp_path)]) == 2
    assert "stoker.toml" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["stoker.toml"]
    assert (tmp_path / "stoker.toml").read_text() == "mine"


def test_a_file_in_place_of_the_folder_is_named(tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    assert main(["init", str(tmp_path / "file/project")]) == 2
    assert f"{tmp_path / 'file'} is not a folder" in capsys.readouterr().err
