"""`stoker tensors` as a user calls it, on a folder and on a real S3 server."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from stoker.cli.main import main
from stoker.cli.tensors import bucket
from stoker.cli.tensors.planes import cut_planes, quantise, read_sample, shrink
from stoker.cli.tensors.scene import MOST_BYTES
from stoker.cli.tensors.series import make_sparkline
from stoker.debugging.description import Description
from stoker.debugging.tensors import (
    Collection,
    SavedStep,
    mark_end,
    write_collections,
    write_descriptions,
    write_step,
)
from stoker.storage.s3 import S3Prefix
from tests.s3_server import serve_s3

LOSS, RELU, IMAGE, SCORES = "MSELoss_output_0", "relu_output_0", "Net_input_0", "Net_output_0"
WEIGHT, NORMS = "Net_conv.weight", "gradient/Net_conv.weight"
DESCRIBED = (
    Description(name=IMAGE, kind="input", is_model=True),
    Description(name=WEIGHT, kind="weight", module="conv"),
    Description(name=NORMS, kind="gradient", module="conv"),
    Description(name=RELU, kind="output", module="relu", module_class="ReLU"),
    Description(name=SCORES, kind="output", is_model=True),
    Description(name=LOSS, kind="loss", module_class="MSELoss", is_of_loss=True),
)


def make_step(step, mode="TRAIN"):
    random = np.random.default_rng(step)
    return SavedStep(
        step=step,
        mode=mode,
        mode_step=step,
        tensors={
            LOSS: np.array(1 / (1 + step), np.float32),
            WEIGHT: np.full((4, 3, 3, 3), step, np.float32),
            RELU: random.normal(size=(2, 4, 6, 6)).clip(0).astype(np.float32),
            IMAGE: random.random((2, 3, 8, 8)).astype(np.float32),
            SCORES: np.eye(5, dtype=np.float32)[[step % 5, 0]],
        },
        reductions={NORMS: {"abs_mean": 0.5 + step, "l2_norm": 2.0}},
    )


def save(folder, steps=(0, 10, 20), *, has_ended=True):
    """A run of a small network; step 15 is one of the evaluation."""
    folder = str(folder)
    collections = [
        Collection(name="losses", tensor_names=(LOSS,)),
        Collection(name="weights", tensor_names=(WEIGHT,)),
    ]
    write_collections(folder, "worker_0", collections)
    write_descriptions(folder, "worker_0", DESCRIBED)
    for step in steps:
        write_step(folder, "worker_0", make_step(step))
    write_step(folder, "worker_0", make_step(15, "EVAL"))
    if has_ended:
        mark_end(folder, is_job=False)


@pytest.fixture
def folder(tmp_path):
    """Such a run."""
    save(tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def on_s3(folder, tmp_path, monkeypatch):
    """The address of such a run."""
    shutil.copytree(folder, tmp_path / "s3/bucket/job/debug-output")
    with serve_s3(tmp_path / "s3", monkeypatch):
        yield "s3://bucket/job/debug-output"


@pytest.fixture(params=["folder", "on_s3"])
def place(request):
    """The name of a place with such a run, of each kind."""
    return str(request.getfixturevalue(request.param))


def facts_of(page):
    """What the page's program gets."""

    class Parser(HTMLParser):
        facts = ""
        is_inside = False

        def handle_starttag(self, tag, attrs):
            self.is_inside = dict(attrs).get("id") == "facts"

        def handle_data(self, data):
            self.facts += data if self.is_inside else ""

        def handle_endtag(self, tag):
            self.is_inside = False

    parser = Parser()
    parser.feed(Path(page).read_text())
    return json.loads(parser.facts)


def test_ls_is_a_table_of_what_was_saved(place, capsys):
    assert main(["tensors", "ls", place]) == 0
    said = capsys.readouterr().out
    rows = {line.split()[0]: line for line in said.splitlines() if line}
    assert list(rows)[:7] == ["name", *sorted(d.name for d in DESCRIBED)]
    assert re.search(r"output of ReLU +2×4×6×6 +4 +0 +20 +\S+ kB +float32$", rows[RELU])
    assert re.search(r"loss of MSELoss +scalar +4 +0 +20 ", rows[LOSS])
    assert re.search(r"gradient +\? .* abs_mean/l2_norm$", rows[NORMS])
    assert re.search(r"steps +3 TRAIN, 1 EVAL \(0–20\)", said)
    assert re.search(r"collections +losses 1, weights 1", said)
    assert re.search(r"workers +1 \(worker_0\)", said)
    assert re.search(r"the run +has ended", said)


def test_ls_narrows_by_name_and_mode_and_prints_json(place, capsys):
    assert main(["tensors", "ls", place, "--name", "^Net_", "--mode", "eval", "--json"]) == 0
    listing = json.loads(capsys.readouterr().out)
    assert [tensor["name"] for tensor in listing["tensors"]] == [WEIGHT, IMAGE, SCORES]
    assert listing["steps"] == {"EVAL": 1}
    (weight, _, _) = listing["tensors"]
    assert weight["shape"] == [4, 3, 3, 3]
    assert (weight["first_step"], weight["last_step"], weight["steps"]) == (15, 15, 1)
    assert weight["size_bytes"] > 4 * 3 * 3 * 3 * 4


def test_a_run_that_continues_is_told_from_one_that_has_ended(tmp_path, capsys):
    save(tmp_path, has_ended=False)
    assert main(["tensors", "ls", str(tmp_path)]) == 0
    assert "is running, or was killed: no end is marked" in capsys.readouterr().out


def test_show_has_the_statistics_of_every_step(place, capsys):
    assert main(["tensors", "show", place, "--name", "conv.weight", "--mode", "train"]) == 0
    said = capsys.readouterr().out
    assert "Net_conv.weight (worker_0): weight, 4×3×3×3 float32\nmean  ▁▅█\n" in said
    assert re.search(r"^ +20 +TRAIN +20 +20 +20 +0 +0 +0 +0$", said, re.MULTILINE)
    assert "gradient/Net_conv.weight (worker_0): gradient, ? abs_mean/l2_norm\nabs_mean" in said
    assert re.search(r"^ +10 +TRAIN( +·){7} +10.5 +2$", said, re.MULTILINE)


def test_show_of_many_tensors_has_a_line_for_each(folder, capsys):
    assert main(["tensors", "show", str(folder)]) == 0
    said = capsys.readouterr().out
    (line,) = [line for line in said.splitlines() if line.startswith(LOSS)]
    assert line.endswith("█▁▁▁")
    assert "(abs_mean, now 20.5)" in said


def test_show_prints_the_values_of_a_step_as_numpy_does(place, capsys):
    assert main(["tensors", "show", place, "--name", "Net_output", "--step", "10"]) == 0
    said = capsys.readouterr().out
    assert said == f"{SCORES} (worker_0): 2×5 float32\n{make_step(10).tensors[SCORES]}\n"
    assert main(["tensors", "show", place, "--name", IMAGE, "--step", "10"]) == 0
    assert "..." in capsys.readouterr().out
    assert main(["tensors", "show", place, "--step", "10", "--json"]) == 0
    found = {t["name"]: t for t in json.loads(capsys.readouterr().out)["tensors"]}
    assert found[RELU]["values"] == make_step(10).tensors[RELU].tolist()
    assert found[NORMS]["reductions"] == {"abs_mean": 10.5, "l2_norm": 2.0}


def test_numbers_that_are_none_are_counted_and_never_break_json(tmp_path, capsys):
    sick = np.array([1, 3, np.nan, np.inf, 0, 0, 0, 0], np.float32)
    wide = np.array([1e308, -1e308])
    tensors = {"sick": sick, "lost": np.full(3, np.nan), "wide": wide, "none": np.empty((0, 3))}
    tensors |= {"texts": np.array(["a", "b"]), "complex": np.array([3 + 4j]), "flags": sick > 0}
    write_step(
        str(tmp_path), "worker_0", SavedStep(step=0, mode="TRAIN", mode_step=0, tensors=tensors)
    )
    assert main(["tensors", "show", str(tmp_path), "--json"]) == 0
    read = json.loads(capsys.readouterr().out)["tensors"]
    found = {tensor["name"]: tensor["steps"][0] for tensor in read}
    assert (found["sick"]["min"], found["sick"]["max"]) == (0, 3)
    assert found["sick"]["mean"] == pytest.approx(4 / 6)
    shares = [found["sick"][name] for name in ("nan_share", "inf_share", "zero_share")]
    assert shares == [0.125, 0.125, 0.5]
    assert (found["lost"]["mean"], found["lost"]["nan_share"]) == (None, 1)
    assert found["complex"]["max"] == 5
    assert found["texts"]["mean"] is found["none"]["mean"] is None
    for verb in (["show"], ["plot"], ["show", "--step", "0"]):
        assert main(["tensors", verb[0], str(tmp_path), *verb[1:]]) == 0
    page = tmp_path / "page.html"
    assert main(["tensors", "plot", str(tmp_path), "--html", str(page)]) == 0
    (sick,) = [one for one in facts_of(page)["series"] if one["name"] == "sick"]
    assert sick["bad"] == [0.25]


def test_a_sparkline_marks_what_is_not_a_number():
    assert make_sparkline([0, 1, None, float("nan"), float("inf"), 2], 10) == "▁▅ ✗✗█"
    assert make_sparkline([1e308, -1e308], 10) == "█▁"
    assert make_sparkline([5, 5], 10) == "▄▄"
    assert len(make_sparkline(list(range(1000)), 30)) == 30


def test_plot_draws_curves_in_the_terminal(place, capsys):
    assert main(["tensors", "plot", place, "--name", "Loss|conv.weight$", "--mode", "train"]) == 0
    rows = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()}
    assert rows[WEIGHT] == ["▁▅█", "0", "20", "0", "20"]
    assert rows[LOSS][0] == "█▁▁"


def test_the_page_of_plot_has_every_tensor_and_loads_nothing(place, capsys, tmp_path):
    page = tmp_path / "plot.html"
    assert main(["tensors", "plot", place, "--html", str(page)]) == 0
    assert str(page) in capsys.readouterr().err
    facts = facts_of(page)
    assert facts["hasEnded"]
    assert facts["series"][0]["name"] == LOSS
    (weight,) = [one for one in facts["series"] if one["name"] == WEIGHT]
    assert (weight["steps"], weight["modes"]) == ([0, 10, 15, 20], ["T", "T", "E", "T"])
    assert weight["mean"] == weight["min"] == weight["max"] == [0, 10, 15, 20]
    assert not re.search(r"""(src|href)\s*=|url\(|@import|fetch\(""", page.read_text())


def test_the_page_of_view_has_the_values_in_8_bits(place, capsys, tmp_path):
    page = tmp_path / "view.html"
    assert main(["tensors", "view", place, "--html", str(page), "--steps", "2"]) == 0
    facts = facts_of(page)
    assert facts["steps"] == [0, 20]
    assert [actor["name"] for actor in facts["actors"]] == [IMAGE, RELU, SCORES]
    assert [actor["role"] for actor in facts["actors"]] == ["input", "layer", "prediction"]
    assert facts["actors"][2]["texts"] == ["Predicted class 0", "Predicted class 0"]
    relu = facts["actors"][1]
    assert (relu["count"], relu["height"], relu["width"]) == (4, 6, 6)
    levels = np.frombuffer(b64decode(facts["levels"]), np.uint8)
    at = 2 * 3 * 8 * 8 + 4 * 6 * 6  # after the image's two frames, and one of its own
    shown = levels[at : at + 4 * 6 * 6].reshape(4, 6, 6)
    low, high = relu["ranges"][1]
    truth = make_step(20).tensors[RELU][0]
    assert np.abs(low + (shown - 1.0) / 254 * (high - low) - truth).max() < 0.01 * truth.max()
    assert not re.search(r"""(src|href)\s*=|url\(|@import|fetch\(""", page.read_text())


def test_without_descriptions_layers_follow_their_numbers(tmp_path):
    tensors = {f"{n}_output_0": np.ones((1, 2, 3, 3)) for n in (10, 9, 2)}
    step = SavedStep(step=0, mode="GLOBAL", mode_step=0, tensors=tensors)
    write_step(str(tmp_path), "worker_0", step)
    page = tmp_path / "view.html"
    assert main(["tensors", "view", str(tmp_path), "--html", str(page)]) == 0
    names = [actor["name"] for actor in facts_of(page)["actors"]]
    assert names == ["2_output_0", "9_output_0", "10_output_0"]


def test_a_network_too_large_for_a_page_is_cut_and_the_page_says_so(tmp_path, capsys):
    random = np.random.default_rng(0)
    tensors = {
        f"layer{n:02}_output_0": random.random((1, 100, 64, 64), np.float32) for n in range(4)
    }
    tensors |= {f"small{n:02}_output_0": np.ones((1, 3)) for n in range(40)}
    write_step(
        str(tmp_path), "worker_0", SavedStep(step=0, mode="TRAIN", mode_step=0, tensors=tensors)
    )
    mark_end(str(tmp_path), is_job=False)
    shutil.copytree(tmp_path, tmp_path / "run")
    page = tmp_path / "view.html"
    for step in range(1, 6):
        saved = SavedStep(step=step, mode="TRAIN", mode_step=step, tensors=tensors)
        write_step(str(tmp_path / "run"), "worker_0", saved)
    assert main(["tensors", "view", str(tmp_path / "run"), "--html", str(page)]) == 0
    facts = facts_of(page)
    assert page.stat().st_size < MOST_BYTES * 1.5
    assert len(facts["actors"]) == 32
    assert all(actor["count"] <= 64 for actor in facts["actors"])
    assert facts["actors"][0]["planeCount"] == 100
    said = capsys.readouterr().err
    for note in ("12 of 44 tensors are left out", "the first 64 planes are shown", "made smaller"):
        assert any(note in n for n in facts["notes"]), facts["notes"]
        assert note in said


BATCH = np.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5)
OUTPUT, PARAMETER = Description(name="x", kind="output"), Description(name="x", kind="weight")


@pytest.mark.parametrize(
    ("value", "described", "sample", "expected"),
    [
        (BATCH, OUTPUT, 1, BATCH[1]),
        (BATCH, OUTPUT, "mean", BATCH.mean(0)),
        (BATCH, OUTPUT, "all", BATCH.reshape(6, 4, 5)),
        (BATCH, PARAMETER, 1, BATCH.reshape(6, 4, 5)),
        (BATCH[:, 0], OUTPUT, 1, BATCH[1, :1]),
        (BATCH[0, 0], OUTPUT, 1, BATCH[0, :1, 1:2]),
        (BATCH[0, 0], PARAMETER, 1, BATCH[0, :1]),
        (np.array(7.0), OUTPUT, 0, np.full((1, 1, 1), 7.0)),
        # A picture with its three colours last: a plane is a colour, and not a row of pixels.
        (np.moveaxis(BATCH.repeat(2, 2), 1, 3), OUTPUT, 1, BATCH[1].repeat(2, 1)),
    ],
)
def test_a_plane_is_a_channel_of_the_sample(value, described, sample, expected):
    np.testing.assert_array_equal(cut_planes(value, described, sample), expected)


def test_values_between_the_least_and_the_greatest_keep_their_order_in_8_bits():
    found = quantise(np.array([[[-1.0, 0.0, 1.0, np.nan, np.inf]]]))
    assert found.levels.tolist() == [[[1, 128, 255, 0, 0]]]
    assert (found.low, found.high) == (-1, 1)
    assert quantise(np.full((1, 1, 2), 3.0)).levels.tolist() == [[[1, 1]]]
    assert quantise(np.array([[[-1e308, 1e308]]])).levels.tolist() == [[[1, 255]]]
    assert not quantise(np.full((1, 1, 2), np.nan)).levels.any()


def test_a_picture_is_made_smaller_by_means():
    planes = np.arange(2 * 4 * 6.0).reshape(2, 4, 6)
    expected = planes.reshape(2, 2, 2, 2, 3).mean((2, 4))
    np.testing.assert_allclose(shrink(planes, 2), expected)
    assert shrink(np.ones((1, 1, 100)), 8).shape == (1, 1, 64)
    assert shrink(np.ones((1, 7, 5)), 3).shape == (1, 3, 3)
    assert read_sample("-1") == "mean"


def test_of_a_large_file_on_s3_only_what_is_looked_at_is_fetched(on_s3, capsys, monkeypatch):
    fetched, lock = [], threading.Lock()
    whole = S3Prefix.read

    def count(self, name, **options):
        content = whole(self, name, **options)
        with lock:
            fetched.append((self.uri(name), len(content)))
        return content

    monkeypatch.setattr(S3Prefix, "read", count)
    assert main(["tensors", "ls", on_s3]) == 0
    # A small file at once, and once: all tensors were last saved in the same.
    assert [key for key, _ in fetched if "/events/" in key] == [
        f"{on_s3}/events/000000000020/000000000020_worker_0.tfevents"
    ]
    fetched.clear()
    capsys.readouterr()
    monkeypatch.setattr(bucket, "_WHOLE_BYTES", 0)
    monkeypatch.setattr(bucket, "_HEAD_BYTES", 64)
    assert main(["tensors", "show", on_s3, "--name", LOSS, "--step", "10"]) == 0
    assert "0.090909" in capsys.readouterr().out
    (events,) = [entry for entry in fetched if "/events/" in entry[0]]
    assert events[1] < 400
    assert main(["tensors", "show", on_s3, "--step", "10", "--json"]) == 0
    found = {t["name"]: t for t in json.loads(capsys.readouterr().out)["tensors"]}
    assert found[RELU]["values"] == make_step(10).tensors[RELU].tolist()
    fetched.clear()
    assert main(["tensors", "ls", on_s3, "--name", RELU]) == 0
    assert "2×4×6×6" in capsys.readouterr().out
    sizes = [size for key, size in fetched if "/events/" in key]
    assert 0 < sum(sizes) < make_step(0).tensors[RELU].nbytes


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ls", "--name", "("], "is not a valid regular expression"),
        (["ls", "--name", "relu_outptu"], f"near it are: {RELU}"),
        (["show", "--name", "zebra"], "matches none of the 6 tensors"),
        (["show", "--mode", "predict"], "one of TRAIN, EVAL"),
        (["show", "--step", "11"], "the nearest are 0, 10, 15, 20"),
        (["view", "--sample", "first"], "is not a sample of a batch"),
        (["view", "--sample", "7", "--html", "x.html"], "no values can be shown"),
        (["view", "--steps", "0"], "--steps 0 shows nothing"),
        (["view", "--label", "zebra"], "--label 'zebra' matches none"),
        (["view", "--name", "^gradient", "--label", NORMS, "--prediction", NORMS], "no values"),
        (["plot", "--html", "no/such/folder.html"], "cannot be written"),
    ],
)
def test_what_cannot_be_is_refused_with_a_fix(folder, arguments, said, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    assert main(["tensors", arguments[0], str(folder), *arguments[1:]]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "fix: " in error


def test_a_place_without_tensors_is_refused_and_the_right_one_named(tmp_path, capsys):
    assert main(["tensors", "ls", str(tmp_path / "none")]) == 2
    assert "is not a folder" in capsys.readouterr().err
    assert main(["tensors", "ls", str(tmp_path)]) == 2
    assert "there is nothing" in capsys.readouterr().err
    (tmp_path / "notes.txt").touch()
    assert main(["tensors", "plot", str(tmp_path)]) == 2
    assert "there is notes.txt" in capsys.readouterr().err
    save(tmp_path / "job/tensors")
    assert main(["tensors", "show", str(tmp_path)]) == 2
    assert "did you mean job/tensors in it?" in capsys.readouterr().err


def test_a_wrong_address_on_s3_is_told(on_s3, capsys):
    assert main(["tensors", "ls", "s3://bucket/job"]) == 2
    assert "did you mean debug-output in it?" in capsys.readouterr().err
    assert main(["tensors", "ls", "s3://bucket/nothing"]) == 2
    assert main(["tensors", "ls", "s3://no-such-bucket/x"]) == 3
    assert "NoSuchBucket" in capsys.readouterr().err
    assert main(["tensors", "ls", "s3:///x"]) == 2


def test_what_is_damaged_is_named_and_the_rest_is_shown(folder, capsys):
    (events,) = folder.glob("events/000000000020/*")
    events.write_bytes(events.read_bytes()[:1000])
    (index,) = folder.glob("index/*/000000000010_*")
    index.write_text("{")
    assert main(["tensors", "ls", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "damaged:" in said
    assert "000000000010_worker_0.json is not an index" in said
    assert main(["tensors", "show", str(folder), "--name", RELU]) == 0
    said = capsys.readouterr().out
    assert "damaged: step 20: tensor" in said
    assert re.search(r"^ +15 +EVAL", said, re.MULTILINE)
    assert main(["tensors", "show", str(folder), "--name", RELU, "--step", "20"]) == 0
    assert "is damaged" in capsys.readouterr().out
    page = folder / "page.html"
    assert main(["tensors", "plot", str(folder), "--html", str(page)]) == 0
    assert main(["tensors", "view", str(folder), "--html", str(page)]) == 0
    assert any("is damaged" in note for note in facts_of(page)["notes"])


def test_thousands_of_tensors_are_cut_in_a_table_and_whole_in_json(tmp_path, capsys):
    tensors = {f"layer{n:04}.weight": np.ones(2, np.float32) for n in range(3000)}
    write_step(
        str(tmp_path), "worker_0", SavedStep(step=0, mode="TRAIN", mode_step=0, tensors=tensors)
    )
    assert main(["tensors", "ls", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert len(said.splitlines()) < 250
    assert "… and 2,800 more: narrow it by --name" in said
    assert main(["tensors", "ls", str(tmp_path), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["tensors"]) == 3000
    assert main(["tensors", "show", str(tmp_path)]) == 0
    assert "… and 2,960 more tensors" in capsys.readouterr().err


def test_each_worker_has_its_own_curve(tmp_path, capsys):
    for worker in ("worker_0", "worker_1"):
        write_step(str(tmp_path), worker, make_step(0))
    assert main(["tensors", "plot", str(tmp_path), "--name", LOSS]) == 0
    said = capsys.readouterr().out
    assert f"{LOSS} (worker_0)" in said
    assert f"{LOSS} (worker_1)" in said


def test_without_numpy_the_extra_is_named(folder, tmp_path):
    code = "import sys; sys.modules['numpy'] = None; from stoker.cli.main import main"
    argv = [sys.executable, "-c", f"{code}; sys.exit(main(['tensors', 'ls', {str(folder)!r}]))"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=240)
    assert done.returncode == 2, done.stderr
    assert "fix: pip install 'stoker[tensors]'" in done.stderr


@pytest.mark.browser
@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not here to draw the pages")
@pytest.mark.parametrize("verb", ["plot", "view"])
def test_a_browser_draws_the_page_without_a_complaint(folder, tmp_path, verb):
    evil = SavedStep(
        step=30,
        mode="TRAIN",
        mode_step=30,
        tensors={
            "</script><script>alert(1)_output_0": np.full((2, 3, 4, 4), np.nan),
            WEIGHT: np.full((4, 3, 3, 3), np.nan, np.float32),
        },
    )
    write_step(str(folder), "worker_0", evil)
    page = tmp_path / f"{verb}.html"
    assert main(["tensors", verb, str(folder), "--html", str(page), "--name", "."]) == 0
    argv = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    argv += [f"--user-data-dir={tmp_path}/profile", "--enable-logging=stderr", "--dump-dom"]
    argv += ["--window-size=1600,2400", "--virtual-time-budget=5000"]
    # A page that is drawn when it is looked at needs a frame before its time is over.
    argv += ["--run-all-compositor-stages-before-draw", page.as_uri()]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=240)
    assert "CONSOLE" not in done.stderr, done.stderr
    if verb == "view":
        planes = int(re.search(r'data-drawn="(\d+)"', done.stdout)[1])
        assert planes == 3 + 1 + 12 + 4 + 3 + 1  # image, loss, weight, ReLU, evil one, scores
        assert "step 0 (1/4)" in done.stdout
    else:
        assert 'data-charts="7"' in done.stdout
        assert done.stdout.count('class="curve') >= 7


def test_folders_that_cannot_be_looked_into_are_passed_over(capsys):
    # Processes come and go there, and some have no owner here.
    assert main(["tensors", "ls", "/proc"]) == 2
    assert "there are no saved tensors in /proc" in capsys.readouterr().err
