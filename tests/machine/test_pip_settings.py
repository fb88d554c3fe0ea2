"""What a build is told about the host's package sources."""

from __future__ import annotations

import configparser
import urllib.error
import urllib.request

import pytest

from stoker.machine.pip_settings import make_pip_conf, make_settings, parse_config, serve_folders


def read_conf(text: str) -> dict[str, str]:
    parser = configparser.RawConfigParser()  # as pip reads it
    parser.read_string(text)
    return dict(parser["global"])


def test_environment_beats_the_install_section_which_beats_global():
    listing = "\n".join(
        [
            "global.index-url='https://global.example/simple'",
            "install.index-url='https://install.example/simple'",
            ":env:.index-url='https://env.example/simple'",
            "install.find-links='https://links.example/'",
            "global.find-links='https://other.example/'",
            ":env:.default-timeout='180'",
            "freeze.timeout='1'",
        ]
    )
    assert parse_config(listing) == {
        "index-url": "https://env.example/simple",
        "find-links": "https://links.example/",
        "timeout": "180",
    }


def test_local_wheel_folders_are_served_and_file_indexes_left_out(tmp_path):
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    config = {
        "find-links": f"{wheels} file://{wheels} https://links.example/ {tmp_path}/gone",
        "extra-index-url": "file:///srv/simple https://more.example/simple",
        "trusted-host": "more.example",
    }
    settings = make_settings(config, system_bundle=None)
    assert settings.folders == (wheels,)
    assert settings.links == ("https://links.example/",)
    assert settings.indexes == ("https://more.example/simple",)
    assert settings.left_out == ("file:///srv/simple",)
    conf = read_conf(make_pip_conf(settings, served=["http://127.0.0.1:1/"]))
    assert conf["find-links"].split() == ["https://links.example/", "http://127.0.0.1:1/"]
    assert conf["extra-index-url"] == "https://more.example/simple"
    assert conf["trusted-host"].split() == ["more.example", "127.0.0.1"]


def test_a_token_with_a_percent_sign_survives():
    url = "https://user:to%2Fken@index.example/simple"
    settings = make_settings({"index-url": url}, system_bundle=None)
    assert read_conf(make_pip_conf(settings, served=[]))["index-url"] == url


def test_without_any_configuration_the_file_is_valid_and_names_no_host():
    conf = read_conf(make_pip_conf(make_settings({}, system_bundle=None), served=[]))
    assert conf == {"disable-pip-version-check": "true"}


def test_the_certificates_of_pip_beat_those_of_the_system(tmp_path):
    for name in ("pip.crt", "system.crt"):
        (tmp_path / name).write_text("x")
    config = {"cert": str(tmp_path / "pip.crt")}
    settings = make_settings(config, system_bundle=tmp_path / "system.crt")
    assert settings.ca_bundle == tmp_path / "pip.crt"
    assert make_settings({}, system_bundle=tmp_path / "system.crt").ca_bundle is not None
    assert make_settings({"cert": str(tmp_path / "no")}, system_bundle=None).ca_bundle is None


def test_folders_are_served_on_loopback_until_the_block_ends(tmp_path):
    (tmp_path / "a-1.0-py3-none-any.whl").write_bytes(b"wheel")
    with serve_folders([tmp_path]) as (address,):
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address, timeout=240) as page:
            assert b"a-1.0-py3-none-any.whl" in page.read()
        with urllib.request.urlopen(f"{address}a-1.0-py3-none-any.whl", timeout=240) as file:
            assert file.read() == b"wheel"
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=240)
