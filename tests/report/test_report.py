"""The report: what it names first, that its figures are right, and that it always renders."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from stoker.bus.job_phases import JobPhase, append_phase
from stoker.bus.step_records import FIRST_OF_EPOCH
from stoker.cli.main import main
from stoker.debugging.profiler_rules.profile import Event, Profile
from stoker.report.figures.bill import make_bill
from stoker.report.figures.headroom import find_headroom
from stoker.report.figures.outliers import find_outliers
from stoker.report.figures.run import Run, Stage, evaluate_rules, find_traces, read_profile
from stoker.report.insights import find_insights
from stoker.report.insights.other_work import find_place
from stoker.report.page import render_report
from tests.debugging.profiler_rules.profiles import (
    START,
    make_machine,
    make_profile,
    make_series,
    make_steps,
    write_samples,
    write_steps,
)
from tests.report.sick_runs import LOADER, make_step, write_healthy, write_run, write_slow_loader

MOST_BYTES = 6_000_000


def read(folder, **fields):
    profile, remarks = read_profile(folder)
    rules, is_quick = evaluate_rules(profile)
    fields = {"title": "a run", "remarks": remarks, "is_quick": is_quick, **fields}
    return Run(profile=profile, rules=rules, **fields)


def make_run(profile, **fields):
    return Run(title="a run", profile=profile, rules=evaluate_rules(profile)[0], **fields)


def test_a_healthy_run_has_no_findings(tmp_path):
    write_healthy(tmp_path)
    run = read(tmp_path)
    assert not find_insights(run, make_bill(run))
    assert not run.rules.findings
    assert "Nothing was found that would be worth a change" in render_report(run)


def test_idle_cores_are_named_unless_other_jobs_on_the_machine_have_them():
    steps = make_steps([0.1] * 300, forward=0.1)
    machine = make_machine(60, cpu0=10, cpu1=30)

    def find(pressure):
        samples = {**machine, ("PressureStall", "cpu some"): make_series([pressure] * 60)}
        run = make_run(make_profile(steps, algo_1=samples))
        return [one.key for one in find_insights(run, make_bill(run))]

    assert find(2.0) == ["cpu"]
    assert find(90.0) == []


def test_the_loader_is_named_with_its_workers_and_the_cores(tmp_path):
    write_slow_loader(tmp_path)
    run = read(tmp_path)
    first, *_ = find_insights(run, make_bill(run))
    assert "8 loader workers share 2 cores" in first.title
    assert first.change.startswith("num_workers=2")
    assert first.trials == ("workers",)
    assert "no batch lay ready in 75 % of the steps" in first.evidence


def test_crowded_workers_that_start_again_in_each_epoch_are_named_with_their_number(tmp_path):
    first = make_step(data_wait=4.0, flags=FIRST_OF_EPOCH)
    loader = {**LOADER, "num_workers": 8, "persistent_workers": False}
    write_run(tmp_path, [first, make_step(), make_step()] * 5, loader=loader)
    run = read(tmp_path)
    found, *_ = find_insights(run, make_bill(run))
    assert found.key == "epoch-start"
    assert found.title.endswith("8 loader workers share 2 cores")
    assert found.change.endswith("and num_workers=2")
    assert found.trials == ("persistent_workers", "workers")


def test_the_bill_adds_up_and_has_dollars_of_known_types_only(tmp_path):
    whole = write_healthy(tmp_path)
    stages = [
        Stage(name="Starting", start=START - 31, end=START - 21),
        Stage(name="Downloading", start=START - 21, end=START - 1),
        Stage(name="Training", start=START - 1, end=START + whole - 1),
        Stage(name="Uploading", start=START + whole - 1, end=START + whole + 4),
    ]
    run = read(tmp_path, stages=stages, instances={"ml.g5.xlarge": 2}, region="us-east-1")
    bill = make_bill(run)
    assert bill.total_seconds == pytest.approx(whole + 35, abs=0.1)
    assert bill.seconds["download"] == pytest.approx(20)
    assert bill.seconds["compute"] == pytest.approx(300 * 0.19, rel=0.01)
    assert bill.usd(3600) == pytest.approx(bill.usd_per_hour)
    assert "$" in render_report(run)
    unknown = make_bill(read(tmp_path, instances={"ml.none.large": 1}, region="us-east-1"))
    assert unknown.usd(1.0) is None
    assert "no price of ml.none.large" in unknown.price_source


def test_a_page_renders_whatever_is_missing_and_says_why(tmp_path):
    empty = render_report(make_run(Profile()))
    assert "Nothing of this job was measured" in empty
    assert "No hardware was sampled" in empty
    no_steps = render_report(make_run(make_profile(algo_1=make_machine(50, cpu0=10))))
    assert "No step was measured" in no_steps
    assert "No GPU was measured" in no_steps
    write_steps(tmp_path, [make_step()])
    one_step = render_report(read(tmp_path, hosts=["algo-1", "algo-2"]))
    assert "Only one step was measured" in one_step
    assert "Files of algo-2 are not there" in one_step
    for file in tmp_path.rglob("*.json"):
        file.write_text("{half")
    assert "algo-1" in render_report(read(tmp_path))


def test_a_script_without_training_gets_no_advice_about_it(tmp_path):
    for phase, begin, over in (("start", -1, 0), ("training", 0, 3)):
        span = JobPhase(phase=phase, name="", start=START + begin, end=START + over, host="algo-1")
        append_phase(str(tmp_path), span)
    run = read(tmp_path)
    assert make_bill(run).total_seconds == pytest.approx(4)
    assert not find_insights(run, make_bill(run))


def test_records_that_cannot_be_true_are_left_out_and_their_file_is_named(tmp_path):
    write_healthy(tmp_path)
    (file,) = tmp_path.rglob("*.steps")
    whole = read(tmp_path)
    noise = np.random.default_rng(0).bytes(64 * 50)
    file.write_bytes(file.read_bytes() + noise)
    run = read(tmp_path)
    assert run.profile.steps_of("TRAIN")[0].steps == whole.profile.steps_of("TRAIN")[0].steps
    assert make_bill(run).total_seconds == make_bill(whole).total_seconds
    assert f"{file.name} is damaged" in run.remarks[0]
    assert f"{file.name} is damaged" in render_report(run)


def test_a_million_steps_and_many_hosts_stay_below_the_size(tmp_path):
    steps = make_steps(np.full(1_000_000, 0.001), data_wait=0.0001)
    nodes = {f"algo_{n}": make_machine(7200, cpu0=10, cpu1=90, gpu0=50) for n in range(1, 9)}
    page = render_report(make_run(make_profile(steps, **nodes)))
    assert len(page.encode()) < MOST_BYTES
    assert "https://" not in page.split("<body>")[1].replace("ui.perfetto.dev", "")


def test_slow_steps_are_explained_by_what_happened_in_them():
    wait = np.full(200, 0.01)
    wait[100] = 2.0
    save = np.zeros(200)
    save[150] = 1.0
    steps = make_steps(0.1 + wait + save, data_wait=wait, checkpoint=save)
    steps.first_of_epoch[100] = True
    found = find_outliers(Profile(steps=[steps]))
    assert [(one.number, one.part) for one in found] == [(100, "data_wait"), (150, "checkpoint")]
    assert "first batch of an epoch" in found[0].reason


def test_other_work_and_pauses_explain_slow_steps():
    rest = np.full(200, 0.01)
    rest[[60, 100]] = 0.4, 5.0
    found = find_outliers(Profile(steps=[make_steps(0.1 + rest, forward=0.1)]))
    assert [(one.number, one.part) for one in found] == [(100, "other"), (60, "other")]
    assert "a pause" in found[0].reason
    assert "the loop did other work" in found[1].reason


def test_the_place_of_other_work_is_that_of_the_longest_gap_in_a_step():
    def make_event(phase, start, seconds):
        return Event(node="algo-1", phase=phase, name=phase, start=start, seconds=seconds, pid=7)

    events = []
    for start in range(0, 40, 4):
        events += [
            make_event("Step:ModeKeys.TRAIN", start, 4.0),
            make_event("DataLoaderIter", start, 0.5),
            make_event("Forward-node", start + 2.5, 0.5),  # 2 s after its batch has come
            make_event("Backward(post-forward)-node", start + 3, 0.5),
            make_event("Optimizer", start + 3.5, 0.1),
        ]
    place, share = find_place(Profile(events=events))
    assert place == "after its batch has come"
    assert share == pytest.approx(2 / 2.4)
    assert find_place(Profile()) == ("", 0.0)


def test_operators_and_memory_come_from_traces_and_damaged_ones_are_named(tmp_path):
    events = [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": "aten::linear",
            "pid": 1,
            "tid": 1,
            "ts": 0,
            "dur": 100,
        },
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": "aten::addmm",
            "pid": 1,
            "tid": 1,
            "ts": 10,
            "dur": 80,
        },
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 30, "dur": 50},
        {
            "ph": "i",
            "name": "[memory]",
            "pid": 1,
            "tid": 1,
            "ts": 15,
            "args": {"Device Type": 0, "Total Allocated": 9000, "Bytes": 7000},
        },
    ]
    file = tmp_path / "algo-1_0.1.pt.trace.json.gz"
    file.write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    (tmp_path / "bad.pt.trace.json").write_text('{"traceEvents": [')
    write_steps(tmp_path, [make_step()] * 3)
    page = render_report(read(tmp_path, traces=find_traces(tmp_path)))
    text = re.sub("<[^>]+>", " ", page)
    assert re.search(r"aten::addmm\s+80 %", text)
    assert re.search(r"aten::linear\s+20 %", text)
    assert "gemm" in text
    assert "up to 9 kB" in text
    assert re.search(r"aten::addmm\s+7 kB\s+1 ", text)
    assert "bad.pt.trace.json cannot be read" in page


def test_names_of_the_users_cannot_break_the_page():
    nasty = "</script><img src=x onerror=alert(1)>"
    steps = make_steps([0.1] * 5, node=nasty)
    phase = JobPhase(phase="install", name=nasty, start=START - 5, end=START, host=nasty)
    page = render_report(
        Run(
            title=nasty,
            outcome=nasty,
            profile=Profile(steps=[steps], phases=[phase]),
            rules=evaluate_rules(Profile())[0],
            remarks=[nasty],
        )
    )
    assert "<img" not in page


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    folders = [tmp_path_factory.mktemp(name) for name in ("before", "after")]
    write_healthy(folders[0])
    write_slow_loader(folders[1])
    return folders


def test_the_command_writes_page_summary_and_comparison(two_runs, tmp_path, capsys):
    before, after = map(str, two_runs)
    page = tmp_path / "page.html"
    options = ["--html", str(page), "--compare", before, "--instance-type", "ml.g5.xlarge"]
    assert main(["report", after, *options]) == 0
    said = capsys.readouterr().out
    assert "waits for data" in said
    assert "most of it in data wait" in said
    assert 'id="compare"' in page.read_text()
    assert main(["report", after, "--json", "--html", str(page)]) == 0
    assert json.loads(capsys.readouterr().out)["advice"][0]["key"] == "data"
    assert main(["report", str(tmp_path), "--html", str(page)]) == 2
    assert "there is no profile" in capsys.readouterr().err


def test_a_trace_has_steps_with_their_parts_and_the_machine(two_runs, tmp_path, capsys):
    file = tmp_path / "trace.json.gz"
    page = str(tmp_path / "page.html")
    assert main(["report", str(two_runs[1]), "--html", page, "--trace", str(file)]) == 0
    events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert sorted(names.values()) == ["algo-1", "algo-1 rank 0"]
    steps = [e for e in events if e["ph"] == "X" and e["name"].startswith("step ")]
    waits = [e for e in events if e["name"] == "data wait"]
    assert len(steps) == len(waits) == 300
    assert waits[0]["ts"] == steps[0]["ts"]
    assert waits[0]["dur"] == pytest.approx(200_000, rel=0.01)
    assert {e["name"] for e in events if e["ph"] == "C"} == {"CPU %", "memory bytes"}
    assert "ui.perfetto.dev" in capsys.readouterr().err
    assert main(["report", str(two_runs[1]), "--html", page, "--trace", "/none/t.json"]) == 2


def test_the_largest_batch_of_a_training_on_cpu_is_reasoned_from_what_steps_take(tmp_path):
    steps = [make_step() for _ in range(300)]
    end = write_steps(tmp_path, steps, loaders=({"batch_size": 32},))
    # The process takes 0.5 GB before its first step, then 1.5 GB: 1 GB for batches of 32.
    seconds = np.arange(-4, end - START, 0.5)
    figures = {
        ("process", "ProcessMemoryBytes", "100 python"): np.where(seconds < 0, 0.5e9, 1.5e9),
        ("memory", "MemoryBytes", "used"): np.full(len(seconds), 2.4e9),
        ("memory", "MemoryBytes", "limit"): np.full(len(seconds), 8e9),
    }
    write_samples(tmp_path, figures, start=START - 4)
    run = read(tmp_path)
    (found,) = find_headroom(run.profile)
    assert found.limit_bytes == 8e9
    # 2.4 of 8 GB are used: 4.8 GB are left below 90 %, at 31.25 MB for each sample.
    assert found.largest_batch == pytest.approx(32 + 4.8e9 / (1e9 / 32), rel=0.06)
    assert "31.2 MB for each sample" in found.reasoning
    page = render_report(run)
    assert "would fit (now 32)" in page
    assert '"name":"rank 0"' in page


def test_metrics_of_the_job_are_on_the_page():
    points = [(START + n, value) for n, value in enumerate([0.5, float("nan"), -0.25])]
    page = render_report(
        make_run(Profile(steps=[make_steps([0.1] * 5)]), metrics={"loss": points})
    )
    facts = json.loads(re.search(r'id="facts">(.*?)</script>', page)[1])
    assert facts["metrics"][0]["lines"][0]["means"] == [0.5, -0.25]
    assert 'id="metrics-charts"' in page


def probe_page(page, probe, folder, width=1200):
    """What a script at the end of the page writes into its title, in a real browser."""
    file = folder / "page.html"
    file.write_text(page.replace("</body>", probe))
    argv = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    argv += [f"--user-data-dir={folder}/chromium", f"--window-size={width},2000"]
    argv += ["--dump-dom", file.as_uri()]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=240)
    return json.loads(re.search(r"<title>(.*?)</title>", done.stdout)[1])


needs_chromium = pytest.mark.skipif(
    not shutil.which("chromium"), reason="chromium is not here to draw the page"
)


@pytest.mark.browser
@needs_chromium
def test_the_charts_are_drawn_and_can_be_zoomed(two_runs, tmp_path):
    run = read(two_runs[1])
    probe = """<script>
      const lines = () => document.querySelectorAll("path.line[d^=M]").length;
      const before = [lines(), document.querySelectorAll("svg text")[3].textContent];
      look(facts.start, facts.start + 10);
      const last = [...document.querySelectorAll("svg text")].map((text) => text.textContent);
      document.title = JSON.stringify({lines: before[0], zoomed: last.includes("10 s")});
    </script></body>"""
    found = probe_page(render_report(run), probe, tmp_path)
    assert found["lines"] >= 5
    assert found["zoomed"]


@pytest.mark.browser
@needs_chromium
def test_on_a_phone_the_bill_and_the_texts_of_tables_need_no_scrolling(two_runs, tmp_path):
    probe = """<script>
      const tables = [...document.querySelectorAll("table.bill, table.told")];
      document.title = JSON.stringify({
        body: document.documentElement.scrollWidth - innerWidth,
        kinds: [...new Set(tables.map((table) => table.className))].sort(),
        tables: tables.filter((table) => table.scrollWidth > table.clientWidth).length,
      });
    </script></body>"""
    page = render_report(read(two_runs[1]))
    found = probe_page(page, probe, tmp_path, width=400)
    assert found["kinds"] == ["bill", "told"]
    assert found["body"] <= 0
    assert found["tables"] == 0
