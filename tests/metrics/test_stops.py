"""What is on file when a process ends, however it ends."""

from __future__ import annotations

import signal

import pytest

from tests.metrics.conftest import DEADLINE_SECONDS
from tests.metrics.reading import event_files, events_of, scalars

LOG_AND_WAIT = """
    import signal, time
    import stoker
    job = stoker.job()
    {before}
    job.log(1, loss=0.5)
    {after}
    job.log(2, loss=0.25)
    print("ready", flush=True)
    while True:
        time.sleep(0.01)
"""


def stop(scripts, before="", after=""):
    """Runs a script until it is ready, sends SIGTERM, returns its exit code and output."""
    process = scripts.start(LOG_AND_WAIT.format(before=before, after=after))
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line == "ready\n":
            break
    process.send_signal(signal.SIGTERM)
    # communicate() would pass over what the loop has read ahead.
    with process:
        out, err = process.stdout.read(), process.stderr.read()
    return process.returncode, "".join(lines) + out, err


def test_sigterm_flushes_and_ends_the_process_as_it_would_have(scripts):
    code, out, err = stop(scripts)
    assert code == -signal.SIGTERM, err
    assert "[metric] step=2 loss=0.25\n" in out
    assert scalars(scripts.tensorboard, "loss") == [(1, 0.5), (2, 0.25)]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_handler_of_the_script_always_wins(scripts, when):
    own = "signal.signal(signal.SIGTERM, lambda *_: exit(7))"
    code, _, err = stop(scripts, **{when: own})
    assert code == 7, err
    assert scalars(scripts.tensorboard, "loss") == [(1, 0.5), (2, 0.25)]


def test_a_handler_that_calls_the_one_before_it_is_not_killed_by_it(scripts):
    code, out, err = stop(
        scripts,
        after="""earlier = signal.getsignal(signal.SIGTERM)
    def chained(*arguments):
        earlier(*arguments)
        print("still here", flush=True)
        exit(0)
    signal.signal(signal.SIGTERM, chained)""",
    )
    assert code == 0, err
    assert "still here" in out


def test_a_script_that_ignores_sigterm_continues(scripts):
    process = scripts.start(
        LOG_AND_WAIT.format(before="signal.signal(signal.SIGTERM, signal.SIG_IGN)", after="")
        .replace("while True:", "while not signal.sigtimedwait([signal.SIGUSR2], 0.1):")
        .replace(
            "import stoker\n",
            "import stoker\n    signal.pthread_sigmask(0, [signal.SIGUSR2])\n",
            1,
        )
    )
    while process.stdout.readline() not in ("ready\n", ""):
        pass
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGUSR2)
    _, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 0, err


@pytest.mark.parametrize("end", ["", "raise SystemExit(0)", "import sys; sys.exit()"])
def test_an_ordinary_end_flushes(scripts, end):
    out = scripts.run(f"""
        import stoker
        stoker.job().log(3, loss=0.5)
        {end}
    """).stdout
    assert out == "[metric] step=3 loss=0.5\n"
    assert scalars(scripts.tensorboard, "loss") == [(3, 0.5)]


def test_an_exception_flushes_too(scripts):
    process = scripts.start("""
        import stoker
        stoker.job().log(3, loss=0.5)
        raise RuntimeError("diverged")
    """)
    _, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 1
    assert "diverged" in err
    assert scalars(scripts.tensorboard, "loss") == [(3, 0.5)]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_write_files_of_their_own(scripts, method):
    scripts.run(f"""
        import multiprocessing
        import stoker

        def work():
            writer = stoker.job().tensorboard()
            writer.add_scalar("child", 1.0, 5)

        if __name__ == "__main__":
            writer = stoker.job().tensorboard()
            writer.add_scalar("parent", 1.0, 7)
            writer.flush()
            writer.add_scalar("parent", 2.0, 8)
            process = multiprocessing.get_context("{method}").Process(target=work)
            process.start()
            process.join()
            assert process.exitcode == 0
    """)
    tags = [
        [event.summary.value[0].tag for event in events_of(file) if event.HasField("summary")]
        for file in event_files(scripts.tensorboard)
    ]
    assert sorted(tags) == [["child"], ["parent", "parent"]]


def test_workers_of_a_data_loader_do_not_disturb_the_log(scripts):
    scripts.run("""
        import stoker, torch
        if __name__ == "__main__":
            job = stoker.job()
            writer = job.tensorboard()
            loader = torch.utils.data.DataLoader(torch.arange(20.0), batch_size=4, num_workers=2)
            for epoch in range(2):
                for step, batch in enumerate(loader):
                    job.log(epoch * 5 + step, mean=batch.mean())
    """)
    assert [step for step, _ in scalars(scripts.tensorboard, "mean")] == list(range(10))
    assert len(event_files(scripts.tensorboard)) == 1
