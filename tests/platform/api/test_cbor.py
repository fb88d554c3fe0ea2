"""CBOR as botocore reads and writes it, and what is not CBOR."""

from __future__ import annotations

import io
from contextlib import suppress

import pytest
from botocore.parsers import RpcV2CBORParser
from hypothesis import given
from hypothesis import strategies as st

from stoker.platform.api.cbor import Time, decode, encode

# botocore leaves out members of a map that are null.
VALUES = st.recursive(
    st.booleans()
    | st.integers(-(2**64), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_encoded_is_decoded(value):
    assert decode(encode(value)) == value


@given(VALUES)
def test_botocore_reads_what_is_encoded(value):
    stream = io.BufferedReader(io.BytesIO(encode(value)))
    assert RpcV2CBORParser().parse_data_item(stream) == value


@given(st.binary(max_size=60))
def test_anything_else_is_a_value_error(raw):
    with suppress(ValueError):
        decode(raw)


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"\x9f\x01\x02\xff", [1, 2]),
        (b"\xbf\x61a\xf5\xff", {"a": True}),
        (b"\x7f\x61a\x61b\xff", "ab"),
        (b"\xf9\x3c\x00", 1.0),
        (encode([None]), [None]),
        (encode(Time(1.5)), 1.5),
    ],
)
def test_forms_that_only_others_write(raw, value):
    assert decode(raw) == value


@pytest.mark.parametrize(
    "raw", [b"", b"\x81" * 100_000, b"\x01\x01", b"\xbf\x01\xff", b"\x9a\xff\xff\xff\xff"]
)
def test_damage_is_named(raw):
    with pytest.raises(ValueError, match=r"CBOR|value|nested|bytes|zip"):
        decode(raw)
