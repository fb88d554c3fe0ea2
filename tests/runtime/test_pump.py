"""The pump alone, over real pipes: memory, tails, frames."""

from __future__ import annotations

import os
import threading

import pytest

from stoker.runtime.pump import TAIL_BYTES, Pump


@pytest.fixture
def pumped():
    """Feeds pieces to a pump, one read each, and returns (pump, what came out)."""
    opened = []

    def feed(*pieces, mask=None):
        source, write = os.pipe()
        out, sink = os.pipe()
        opened.extend([write, sink, out])
        received = bytearray()
        drain = threading.Thread(target=_drain, args=(out, received))
        drain.start()
        pump = Pump(source, sink, mask=mask)
        for piece in pieces:
            os.write(write, piece)
            pump.read()
        pump.finish()
        os.close(sink)
        opened.remove(sink)
        drain.join()
        return pump, bytes(received)

    yield feed
    for descriptor in opened:
        os.close(descriptor)


def _drain(descriptor, into):
    while piece := os.read(descriptor, 65536):
        into.extend(piece)


def test_pieces_of_a_line_are_put_together(pumped):
    assert pumped(b"one ", b"li", b"ne\ntwo\n")[1] == b"one line\ntwo\n"


def test_a_character_cut_in_two_arrives_whole(pumped):
    cut = "é\n".encode()
    assert pumped(cut[:1], cut[1:])[1] == cut


def test_the_tail_is_bounded_however_much_is_printed(pumped):
    pump, out = pumped(*[b"x" * 59_999 + b"\n"] * 40)
    assert len(out) == 40 * 60_000
    assert len(pump.tail()) <= TAIL_BYTES
    assert len(pump._tail) <= 2 * TAIL_BYTES


def test_a_carriage_return_split_from_its_newline_is_not_a_frame(pumped):
    assert pumped(b"windows\r", b"\nnext\r\n")[1] == b"windows\nnext\n"


def test_frames_that_were_overwritten_at_once_are_left_out(pumped):
    _, out = pumped(b"\r10%", b"\r20%", b"\r30%", b"\r100%\n")
    lines = out.decode().splitlines()
    assert lines[-1] == "100%"
    assert len(lines) <= 2


def test_a_mask_is_applied_to_every_line_and_to_the_tail(pumped):
    pump, out = pumped(b"a secret here\n", mask=lambda text: text.replace("secret", "***"))
    assert out == b"a *** here\n"
    assert "secret" not in pump.tail()


def test_a_sink_without_a_reader_is_given_up(pumped):
    source, write = os.pipe()
    out, sink = os.pipe()
    os.close(out)
    pump = Pump(source, sink)
    os.write(write, b"lost on the way\n")
    assert pump.read() == 16
    assert pump.tail() == "lost on the way\n"
    pump.finish()
    os.close(write)
    os.close(sink)
