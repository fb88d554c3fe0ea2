"""Each mistake ends with a clear message, a truthful exit code and no traceback of ours."""

import io
import tarfile

import pytest

CONFIG, DATA, NO_INPUT, UNAVAILABLE = 78, 65, 66, 69


def _ends_clearly(opt_ml, code, words):
    result = opt_ml.run()
    assert result.returncode == code, result.stderr
    assert words in opt_ml.failure
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    return result


@pytest.mark.parametrize("name", ["hyperparameters", "inputdataconfig", "resourceconfig"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ('{"a": ', "is not valid JSON"),
        ("not json", "is not valid JSON"),
        ("[1, 2]", "holds a JSON list"),
        ("[" * 100_000, "is not valid JSON"),
    ],
)
def test_a_damaged_config_file_is_named(opt_ml, name, text, words):
    opt_ml.script("print('never')")
    opt_ml.config(name, text)
    result = _ends_clearly(opt_ml, CONFIG, words)
    assert f"{name}.json" in result.stderr


def test_missing_config_files_are_not_an_error(opt_ml):
    opt_ml.script("print('ran')")
    (opt_ml.root / "input/config/hyperparameters.json").unlink()
    result = opt_ml.run(SAGEMAKER_PROGRAM="train.py")
    assert result.returncode == 0
    assert result.stdout == "ran\n"


def test_a_broken_optional_file_never_disturbs_a_run(opt_ml):
    opt_ml.script("print('ran')")
    for name in ("checkpointconfig", "debughookconfig", "tensorboardoutputconfig"):
        opt_ml.config(name, "{broken")
    result = opt_ml.run()
    assert result.returncode == 0
    assert "checkpointconfig.json is not valid JSON" in result.stderr


def test_an_unknown_entry_point_gets_the_near_miss(opt_ml):
    opt_ml.script("print('never')", name="train.py")
    opt_ml.hyperparameters(sagemaker_program="trian.py")
    result = _ends_clearly(opt_ml, NO_INPUT, "entry point 'trian.py' is not in")
    assert "did you mean 'train.py'?" in result.stderr


def test_no_entry_point_says_how_to_name_one(opt_ml):
    _ends_clearly(opt_ml, NO_INPUT, "no entry point")


@pytest.mark.parametrize("entry", ["../evil.py", "-c", "a\nb.py"])
def test_an_entry_point_that_is_not_a_file_name_is_refused(opt_ml, entry):
    opt_ml.script("print('never')")
    opt_ml.hyperparameters(sagemaker_program=entry)
    _ends_clearly(opt_ml, NO_INPUT, "is not a valid entry point")


def test_a_host_list_without_this_host_is_refused(opt_ml):
    opt_ml.script("print('never')")
    opt_ml.config("resourceconfig", {"current_host": "algo-9", "hosts": ["algo-1", "algo-2"]})
    _ends_clearly(opt_ml, CONFIG, "current_host is 'algo-9', but hosts are algo-1, algo-2")


def test_unreachable_peers_end_after_a_visible_bounded_wait(opt_ml):
    opt_ml.script("print('never')")
    opt_ml.config(
        "resourceconfig",
        {"current_host": "localhost", "hosts": ["localhost", "no-such-host.invalid"]},
    )
    result = opt_ml.run(STOKER_PEER_LIMIT_SECONDS="3")
    assert result.returncode == UNAVAILABLE
    assert "waiting for no-such-host.invalid" in result.stderr
    assert "1 of 2 hosts are unknown to DNS" in opt_ml.failure


def _tar(file, *members):
    with tarfile.open(file, "w:gz") as tar:
        for member, content in members:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def _member(name, kind=tarfile.REGTYPE, link=""):
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    return member


@pytest.mark.parametrize(
    "member",
    [
        _member("../outside.py"),
        _member("/absolute.py"),
        _member("link", tarfile.SYMTYPE, "../../outside"),
        _member("hard", tarfile.LNKTYPE, "/etc/passwd"),
        _member("device", tarfile.CHRTYPE),
    ],
    ids=lambda member: member.name,
)
def test_an_archive_that_leaves_its_folder_is_refused_whole(opt_ml, member):
    archive = opt_ml.root / "sourcedir.tar.gz"
    _tar(archive, (_member("train.py"), b"print('never')"), (member, b""))
    opt_ml.hyperparameters(sagemaker_program="train.py", sagemaker_submit_directory=str(archive))
    _ends_clearly(opt_ml, DATA, "sourcedir.tar.gz is refused")
    assert not (opt_ml.root / "code/train.py").exists()


def test_a_truncated_archive_is_named(opt_ml):
    archive = opt_ml.root / "sourcedir.tar.gz"
    _tar(archive, (_member("train.py"), b"x" * 100_000))
    archive.write_bytes(archive.read_bytes()[:80])
    opt_ml.hyperparameters(sagemaker_program="train.py", sagemaker_submit_directory=str(archive))
    _ends_clearly(opt_ml, NO_INPUT, "could not be unpacked")


def test_the_largest_legal_set_of_hyperparameters_starts(opt_ml):
    values = {f"key_{i:03}": "v" * 2500 for i in range(99)}
    opt_ml.script(
        """
        import os, sys
        print(len(sys.argv), len(os.environ["SM_HP_KEY_007"]), "SM_HPS" in os.environ)
        """,
        **values,
    )
    result = opt_ml.run()
    assert result.returncode == 0
    assert result.stdout == "199 2500 False\n"
    assert "left out of the environment" in result.stderr


def test_odd_names_and_values_reach_the_script_unchanged(opt_ml):
    odd = {"quote": 'it\'s "so"', "lines": "a\nb", "unicode": "naïve 漢字 🔥", "equals": "a=b"}
    opt_ml.script(
        """
        import json, sys
        values = dict(zip(sys.argv[1::2], sys.argv[2::2]))
        print(json.dumps(values))
        """,
        **odd,
    )
    result = opt_ml.run()
    import json

    assert json.loads(result.stdout) == {f"--{k}": v for k, v in odd.items()}


def test_an_unsupported_distribution_names_the_one_that_works(opt_ml):
    opt_ml.script("print('never')", sagemaker_distributed_dataparallel_enabled="true")
    _ends_clearly(opt_ml, CONFIG, "smdistributed.dataparallel")


def test_mpi_without_mpirun_says_what_to_install(opt_ml):
    opt_ml.script("print('never')", sagemaker_mpi_enabled="true")
    _ends_clearly(opt_ml, CONFIG, "there is no mpirun in this image")
