"""Keeping secrets out of logs and failure reasons."""

from __future__ import annotations

import json
import time

import pytest

from stoker.contract.hyperparameters import argument_text, decode
from stoker.contract.secrets import MASK, Masker, is_secret


@pytest.mark.parametrize(
    "name",
    [
        "api_key",
        "API_KEY",
        "apiKey",
        "APIKEY",
        "wandb-api-key",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "HF_TOKEN",
        "hf.token",
        "db_password",
        "PASSWD",
        "private_key",
        "credentials",
        "dbCreds",
        "auth",
        "passphrase",
    ],
)
def test_the_name_tells_a_secret(name):
    assert is_secret(name, "hunter2hunter2")


@pytest.mark.parametrize(
    "name", ["tokenizer", "monkey", "keyboard", "epochs", "TOKENIZERS_PARALLELISM", "author"]
)
def test_a_name_that_only_looks_like_one_is_none(name):
    assert not is_secret(name, "some text")


@pytest.mark.parametrize(
    "value", ["512", "1e5", "-1", "0.5", '"512"', "true", "False", "null", ""]
)
def test_a_plain_number_or_flag_is_not_a_secret(value):
    assert not is_secret("max_tokens", value)
    assert not is_secret("use_auth", value)


def test_a_numeric_password_is_a_secret_anyway():
    assert is_secret("password", "123456")


def test_known_values_are_masked_wherever_they_stand():
    mask = Masker({"API_KEY": "abcd1234"}, {"token": '"tok-567890"'})
    text = "--token tok-567890 API_KEY=abcd1234 and again:abcd1234."
    assert mask(text) == f"--token {MASK} API_KEY={MASK} and again:{MASK}."


def test_a_number_of_tokens_stays_readable():
    assert Masker({"max_tokens": "4096"})("max_tokens 4096") == "max_tokens 4096"


@pytest.mark.parametrize(
    "secret", ["plain-secret", 'with"quote', "back\\slash", "pässwörd", "a\tb c"]
)
def test_a_secret_is_masked_in_both_spellings_of_sdk_v2(secret):
    # SDK v2 sends json.dumps(secret); the command line and SM_HP_* show it decoded.
    mask = Masker({"password": json.dumps(secret)})
    assert secret not in mask(f"--password {secret} --epochs 3")
    assert json.dumps(secret)[1:-1] not in mask(f'"password": {json.dumps(secret)}')


def test_a_secret_that_contains_another_is_masked_whole():
    mask = Masker({"a_password": "abcd", "b_password": "abcdefgh"})
    assert mask("abcdefgh abcd") == f"{MASK} {MASK}"


def test_a_value_too_short_to_be_a_secret_does_not_garble_the_log():
    assert Masker({"key": "a"})("a banana") == "a banana"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("https://user:pw@host/simple", f"https://{MASK}@host/simple"),
        ("https://token@host/x", f"https://{MASK}@host/x"),
        ("postgres://u:p%40w@db:5432/x", f"postgres://{MASK}@db:5432/x"),
        ("https://user:p@ss@host/simple", f"https://{MASK}@host/simple"),
        ("mail me@host or https://host/a@b", "mail me@host or https://host/a@b"),
        ("two https://a:b@c/ https://d:e@f/", f"two https://{MASK}@c/ https://{MASK}@f/"),
    ],
)
def test_logins_in_addresses_are_masked(text, masked):
    assert Masker()(text) == masked


@pytest.mark.parametrize("prefix", ["AKIA", "ASIA"])
def test_aws_key_ids_are_masked_without_being_known(prefix):
    key = prefix + "IOSFODNN7EXAMPLE"
    assert Masker()(f"id={key}, more") == f"id={MASK}, more"
    assert Masker()("AKIASHORT") == "AKIASHORT"


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("credentials", '{"user": "bob", "password": "hunter22"}', "hunter22"),
        ("api_keys", '["secretA1", "secretB2"]', "secretB2"),
        ("config", '{"db": {"password": "deep-secret"}}', "deep-secret"),
        ("dbpassword", "plain0", "plain0"),
        ("DB_PASS", "plain0", "plain0"),
        ("password", "12345678901234567890.1", "1.2345678901234567e+19"),
    ],
)
def test_a_secret_is_masked_in_the_spelling_of_the_command_line(name, value, shown):
    line = f"--{name} {argument_text(decode(value))}"
    assert shown in line
    assert shown not in Masker({name: value})(line)


@pytest.mark.parametrize(
    ("name", "value"),
    [("label_key", "label"), ("key", "code"), ("pad_token", "</s>"), ("image_key", "image")],
)
def test_words_of_everyday_language_are_left_alone(name, value):
    assert Masker({name: value})(f"column {value} of the file") == f"column {value} of the file"


def test_tokens_in_the_query_of_an_address_are_masked():
    masked = Masker()("Looking in indexes: https://host.example/simple?token=QUERYTOK123&x=1")
    assert "QUERYTOK123" not in masked
    assert "x=1" in masked


@pytest.mark.parametrize(
    "name",
    [
        *("private_token", "access_token", "token", "sig", "X-Amz-Signature", "client_secret"),
        *("X-Amz-Security-Token", "X-Amz-Credential", "AWSAccessKeyId", "api_key", "jwt", "pat"),
        *("session", "password", "auth"),
    ],
)
@pytest.mark.parametrize(
    "line",
    [
        "Looking in indexes: https://host.example/simple?x=1&{0}=QUERYTOK123&y=2",
        "WARNING: Retrying (Retry(total=4)) after 'Read timed out': /simple/p/?{0}=QUERYTOK123",
        "ERROR: Could not find (from https://h/p.whl?{0}=QUERYTOK123#sha256=00) for 'p'",
    ],
)
def test_secrets_in_the_query_of_an_address_are_masked(name, line):
    masked = Masker()(line.format(name))
    assert "QUERYTOK123" not in masked
    assert f"{name}={MASK}" in masked


@pytest.mark.parametrize(
    "secret",
    [
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuv",
        "glpat-ABCdef_123456789-xyz",
        "hf_ABCdefGHIjklMNOpqrSTUvwxYZ0123456",
        "xoxb-123456789012-abcdefABCDEF",
        "sk-proj-abcdefghijklmnop1234567890",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
        "pypi-AgEIcHlwaS5vcmcCJGFiY2RlZmdoaWprbG1ub3A",
        "xapp-1-A012BCD-3456-abcdef",
        "sk_live" + "_abcdEFGH1234abcdEFGH",
        "AIzaSyA1234567890abcdefghijklmnopqrstuv",
        "ya29.a0AfH6SMBabcdefghijkl",
        "npm_abcdefghijklmnopqrstuvwxyz0123456789",
        "dckr_pat_abcdefghijklmnop-1234",
        "SG.abcdefghijklmnopqrstuv.abcdefghijklmnopqrstuvwxyz0123456789",
    ],
)
def test_a_value_that_looks_like_a_token_is_masked_without_being_known(secret):
    assert Masker()(f"refused: '{secret}', try again") == f"refused: '{MASK}', try again"


@pytest.mark.parametrize(
    "text",
    [
        "task-aware-training-of-models-2024 and risk-free",
        "hf_transformers, ghost, github_patch, sk-learn",
        "epochs=3 lr?=1 what? a&b=c",
        "the basic idea, a token of thanks",
        "secret=none password=short, connect(password=os.environ['PW'])",
        "key: a b c, cookie: none; MSG.file.name npm_install",
    ],
)
def test_text_that_only_resembles_a_token_is_left_alone(text):
    assert Masker()(text) == text


def test_a_bearer_of_a_header_is_masked():
    assert Masker()("Authorization: Bearer abcDEF0123456789xyz") == f"Authorization: Bearer {MASK}"


@pytest.mark.parametrize(
    "text",
    [
        "client_secret=abcDEF0123456789xyz&grant_type=x",
        "AWS_SECRET_ACCESS_KEY=abcDEF0123456789xyz",
        '{"password": "abcDEF0123456789xyz"}',
        "Cookie: abcDEF0123456789xyz",
        "X-Api-Key: abcDEF0123456789xyz",
        "see https://h/#access_token=abcDEF0123456789xyz",
        "post to https://host.example/webhook/abcDEF0123456789xyz",
    ],
)
def test_secrets_in_pairs_and_headers_are_masked(text):
    assert Masker()(text) == text.replace("abcDEF0123456789xyz", MASK)


@pytest.mark.parametrize(
    "name",
    [
        *("GITHUB_PAT", "BEARER", "SESSION_COOKIE", "SENTRY_DSN", "AZURE_SAS", "MY_SESSION"),
        *("SLACK_WEBHOOK", "slackWebhook", "JWT", "DB_PW", "AUTHORIZATION", "PRIVATE_PEM"),
    ],
)
def test_more_names_tell_a_secret(name):
    assert Masker({name: "s3cr3t-value"})("it is s3cr3t-value") == f"it is {MASK}"


def test_a_folder_is_not_masked_whatever_its_variable_is_called():
    assert Masker({"SESSION_DIR": "/opt/ml/model"})("/opt/ml/model/a") == "/opt/ml/model/a"


def test_the_secret_of_an_address_is_masked_without_its_address():
    mask = Masker({"PIP_INDEX_URL": "https://me:s3cr3t-pw@host/simple?access_token=abcd9876"})
    assert mask("denied: s3cr3t-pw abcd9876") == f"denied: {MASK} {MASK}"


def test_each_line_of_a_private_key_is_masked():
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END KEY-----"
    masked = Masker({"DEPLOY_PRIVATE_KEY": key})("it has kqhkiG9w0BAQEF in it")
    assert masked == f"it has {MASK} in it"


def test_a_login_that_is_an_everyday_word_does_not_garble_the_log():
    assert Masker({"INDEX": "https://user@host/simple"})("The user asked") == "The user asked"


@pytest.mark.parametrize(
    "text",
    [
        "sk-",
        "-eyJaaaaaaaa",
        "?token",
        "&a",
        "://a",
        "bearer ",
        "hf_a",
        "SG.a",
        "password=",
        "token: ",
    ],
)
def test_a_hostile_text_is_searched_in_linear_time(text):
    def seconds(size):
        started = time.process_time()
        Masker()(text * (size // len(text)))
        return time.process_time() - started

    # Quadratic, the larger would take 256 times as long; for most texts, minutes.
    assert seconds(1 << 18) < 64 * max(seconds(1 << 14), 0.01)
