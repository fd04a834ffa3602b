import gzip
import itertools
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.base.errors import UncertainError
from stoker.http.response import ACCEPT_ENCODING, build_decoder

MOST = 5_000


def raw_deflate(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


PACKERS = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "Deflate ": raw_deflate,
    "": bytes,
    "identity": bytes,
}
packers = st.sampled_from(sorted(PACKERS))
cuts = st.lists(st.integers(0, 10_000), max_size=6)


def taken(encoding, wire, cuts=(), most=MOST, into=None):
    body_ = build_decoder(encoding, most=most, into=into)
    edges = [0, *sorted(min(cut, len(wire)) for cut in cuts), len(wire)]
    for start, end in itertools.pairwise(edges):
        body_.add(wire[start:end])
    return body_


@given(packers, st.binary(max_size=3 * MOST), cuts)
def test_a_body_comes_out_as_it_went_in_up_to_the_most_whatever_its_pieces(name, data, cuts):
    out = taken(name, PACKERS[name](data), cuts)
    assert out.get_body() == data[:MOST]
    assert out.full == (len(data) > MOST)


@given(packers, st.integers(0, 10**6), st.integers(1, 70_000))
def test_never_more_comes_out_than_was_asked_for(name, size, step):
    wire = PACKERS[name](bytes(size))
    out = taken(name, wire, range(step, len(wire), step))
    assert len(out.get_body()) == min(size, MOST)
    assert out.full == (size > MOST)


@given(packers, st.binary(max_size=3 * MOST), cuts)
def test_what_is_handed_on_piece_by_piece_is_what_would_have_been_kept(name, data, cuts):
    pieces = []
    out = taken(name, PACKERS[name](data), cuts, into=pieces.append)
    assert (b"".join(pieces), out.get_body()) == (data[:MOST], b"")


def undone(wire):
    """What the first stream in these bytes holds, by the library alone; None when it is broken."""
    zlib_header = len(wire) > 1 and wire[0] & 15 == 8 and (wire[0] * 256 + wire[1]) % 31 == 0
    whole = zlib.decompressobj(31 if wire[:2] == b"\x1f\x8b" else 15 if zlib_header else -15)
    try:
        out = whole.decompress(wire)
    except zlib.error:
        return None
    return out if whole.eof else None


@given(st.sampled_from(["gzip", "deflate"]), st.binary(max_size=400), cuts)
def test_garbage_is_broken_or_read_as_the_library_reads_it(name, wire, cuts):
    try:
        out = taken(name, wire, cuts)
        read = out.get_body()
    except UncertainError:
        assert wire  # nothing at all is a body, an empty one
        return
    assert len(read) <= MOST
    assert not wire or out.full or read.startswith(undone(wire))


@given(st.binary(max_size=MOST), st.integers(2), st.integers(0, 7), cuts)
def test_a_flipped_bit_is_noticed_or_does_not_matter(data, place, bit, cuts):
    wire = bytearray(gzip.compress(data))
    wire[2 + place % (len(wire) - 2)] ^= 1 << bit
    try:
        read = taken("gzip", bytes(wire), cuts).get_body()
    except UncertainError:
        return
    assert read == data


@given(st.binary(min_size=1, max_size=1000), st.data())
def test_a_body_that_breaks_off_is_never_taken_for_whole(data, draw):
    wire = gzip.compress(data)
    cut = draw.draw(st.integers(1, len(wire) - 1))
    with pytest.raises(UncertainError):
        taken("gzip", wire[:cut]).get_body()


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=5), cuts)
def test_gzip_members_are_one_body(parts, cuts):
    wire = b"".join(gzip.compress(part) for part in parts)
    assert taken("gzip", wire, cuts).get_body() == b"".join(parts)


def test_padding_after_the_end_is_ignored():
    assert taken("gzip", gzip.compress(b"page") + bytes(100), [7, 24, 25, 26]).get_body() == b"page"


@pytest.mark.parametrize(
    "encoding",
    ["br", "zstd", "compress", "gzip, gzip", "gzip,deflate", "br, gzip", "gzip, br", "x", "utf-8"],
)
def test_what_was_not_asked_for_is_refused(encoding):
    assert build_decoder(encoding, most=MOST) is None
    assert encoding not in [name.strip() for name in ACCEPT_ENCODING.split(",")]


@pytest.mark.parametrize(
    "member",
    [gzip.compress(b"", mtime=0), b"\0\0\0\xff\xff"],
    ids=["empty members", "empty blocks"],
)
def test_an_endless_stream_of_nothing_is_cut(member):
    out = build_decoder("deflate" if member[0] == 0 else "gzip", most=MOST)
    for _ in range(100_000):
        out.add(member)
        if out.full:
            break
    assert out.full
    assert out.get_body() == b""


def test_a_body_of_very_many_members_is_cut_though_it_is_small():
    member = gzip.compress(b"", mtime=0)
    assert not taken("gzip", member * 1_000, most=10**9).full
    assert taken("gzip", member * 1_001, most=10**9).full
