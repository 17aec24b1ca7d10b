"""The codecs: what comes out went in, nothing comes out beyond the limit, and garbage is an error with a code."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
import zlib

import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.records.compression import XERIAL_BLOCK, XERIAL_HEADER, Compression, compress, decompress
from kbroker.protocol.records.errors import DecompressedTooLargeError, DecompressionError

CODECS = [codec for codec in Compression if codec]
EACH = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
TEXT = b"to be or not to be, that is the question. " * 2000


@given(st.sampled_from(Compression), st.binary(max_size=5000), st.integers(1, 30))
def test_what_comes_out_went_in(codec: Compression, data: bytes, times: int) -> None:
    data *= times
    packed = compress(codec, data)
    assert decompress(codec, packed, len(data)) == data
    assert decompress(codec, memoryview(bytearray(packed)), len(data)) == data


@pytest.mark.parametrize("level", [None, -1, *range(1, 10)])
def test_the_head_of_a_gzip_member_is_javas_at_every_level(level: int | None) -> None:
    assert compress(Compression.GZIP, TEXT, level)[:10] == bytes.fromhex("1f8b08000000000000ff")


@EACH
def test_views_are_compressed_as_bytes_are(codec: Compression) -> None:
    assert compress(codec, memoryview(TEXT)) == compress(codec, TEXT) == compress(codec, bytearray(TEXT))
    assert len(compress(codec, TEXT)) < len(TEXT) / 4


@pytest.mark.parametrize("codec", Compression)
def test_the_limit_is_exact(codec: Compression) -> None:
    packed = compress(codec, TEXT)
    assert len(decompress(codec, packed, len(TEXT))) == len(TEXT)
    with pytest.raises(DecompressedTooLargeError) as caught:
        decompress(codec, packed, len(TEXT) - 1)
    assert caught.value.code is ErrorCode.INVALID_RECORD


@EACH
def test_a_bomb_takes_no_more_memory_than_the_limit_allows(codec: Compression) -> None:
    bomb = compress(codec, bytes(64 << 20))
    limit = 1 << 20
    tracemalloc.start()
    try:
        with pytest.raises(DecompressedTooLargeError):
            decompress(codec, bomb, limit)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * limit + 2 * len(bomb)


@EACH
def test_data_cut_anywhere_is_an_error(codec: Compression) -> None:
    packed = compress(codec, TEXT[:3000])
    whole = {0}  # nothing compressed is nothing
    if codec is Compression.SNAPPY:
        whole |= {len(XERIAL_HEADER) + left for left in range(4)}  # a stream of no blocks; less than a size is the end
    for size in range(len(packed)):
        if size in whole:
            continue
        with pytest.raises(DecompressionError) as caught:
            decompress(codec, packed[:size], 10_000)
        assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


@given(st.sampled_from(CODECS), st.binary(max_size=200))
def test_garbage_raises_nothing_but_errors_with_a_code(codec: Compression, data: bytes) -> None:
    for source in (data, compress(codec, data)[:10] + data, XERIAL_HEADER + data):
        try:
            assert len(decompress(codec, source, 1000)) <= 1000
        except ApiError:
            continue


@given(st.sampled_from(CODECS), st.integers(0, 10_000), st.integers(0, 255))
def test_a_changed_byte_raises_nothing_but_errors_with_a_code(codec: Compression, position: int, byte: int) -> None:
    packed = bytearray(compress(codec, TEXT[:2000]))
    packed[position % len(packed)] = byte
    try:
        assert len(decompress(codec, packed, 5000)) <= 5000
    except ApiError:
        return


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_named(codec: int) -> None:
    with pytest.raises(DecompressionError, match=f"Unknown compression type id: {codec}"):
        decompress(codec, b"", 10)


class TestGzip:
    def test_members_are_joined_and_what_is_no_member_is_ignored(self) -> None:
        joined = gzip.compress(b"one") + gzip.compress(b"two") + b"behind"
        assert decompress(Compression.GZIP, joined, 6) == b"onetwo"
        with pytest.raises(DecompressedTooLargeError):
            decompress(Compression.GZIP, joined, 5)

    def test_zlib_s_own_framing_is_refused(self) -> None:
        with pytest.raises(DecompressionError):
            decompress(Compression.GZIP, zlib.compress(b"data"), 100)

    def test_the_level_counts(self) -> None:
        assert len(compress(Compression.GZIP, TEXT, 1)) > len(compress(Compression.GZIP, TEXT, 9))

    def test_flags_without_a_meaning_are_not_minded(self) -> None:
        packed = gzip.compress(b"data")
        assert decompress(Compression.GZIP, packed[:3] + b"\xe0" + packed[4:], 4) == b"data"


class TestSnappy:
    def test_blocks_are_as_long_as_java_s(self) -> None:
        packed = compress(Compression.SNAPPY, TEXT)
        assert packed.startswith(XERIAL_HEADER)
        position, sizes = len(XERIAL_HEADER), []
        while position < len(packed):
            (size,) = struct.unpack_from(">i", packed, position)
            sizes.append(size)
            position += 4 + size
        assert len(sizes) == -(-len(TEXT) // XERIAL_BLOCK)

    def test_a_bare_block_is_read(self) -> None:
        bare = compress(Compression.SNAPPY, b"bare" * 10)[len(XERIAL_HEADER) + 4 :]
        assert decompress(Compression.SNAPPY, bare, 40) == b"bare" * 10
        with pytest.raises(DecompressedTooLargeError):
            decompress(Compression.SNAPPY, bare, 39)

    def test_joined_streams_are_read(self) -> None:
        joined = compress(Compression.SNAPPY, b"one") + compress(Compression.SNAPPY, b"two")
        assert decompress(Compression.SNAPPY, joined, 6) == b"onetwo"

    def test_a_block_that_claims_more_than_it_can_hold_is_not_believed(self) -> None:
        claims_a_gigabyte = b"\x80\x80\x80\x80\x04\x00a"
        with pytest.raises(DecompressionError, match="claims"):
            decompress(Compression.SNAPPY, claims_a_gigabyte, 1 << 31)

    @pytest.mark.parametrize("size", [-1, 0, 100])
    def test_a_block_size_that_cannot_be_is_an_error(self, size: int) -> None:
        with pytest.raises(DecompressionError):
            decompress(Compression.SNAPPY, XERIAL_HEADER + struct.pack(">i", size) + b"abc", 100)


class TestLz4:
    def test_what_follows_the_frame_is_ignored(self) -> None:
        assert decompress(Compression.LZ4, compress(Compression.LZ4, b"data") + b"behind", 100) == b"data"

    def test_the_frame_is_of_independent_blocks_of_64_kib(self) -> None:
        flags, descriptor = compress(Compression.LZ4, TEXT)[4:6]
        assert flags == 0b0110_0000  # version 1, blocks independent, no checksums, no size
        assert descriptor >> 4 == 4

    def test_level_9_is_the_fast_compressor(self) -> None:
        assert compress(Compression.LZ4, TEXT, 9) == compress(Compression.LZ4, TEXT)
        assert len(compress(Compression.LZ4, TEXT, 12)) < len(compress(Compression.LZ4, TEXT))

    @pytest.mark.parametrize("store_size", [False, True])
    @pytest.mark.parametrize("content_checksum", [False, True])
    def test_what_a_frame_says_of_its_whole_content_is_not_looked_at(
        self, store_size: bool, content_checksum: bool
    ) -> None:
        options = {"store_size": store_size, "content_checksum": content_checksum, "block_linked": False}
        frame = bytearray(lz4.frame.compress(TEXT, **options))
        assert decompress(Compression.LZ4, frame, len(TEXT)) == TEXT
        if content_checksum:
            frame[-1] ^= 1
            assert decompress(Compression.LZ4, frame, len(TEXT)) == TEXT
            with pytest.raises(DecompressionError) as caught:
                decompress(Compression.LZ4, frame[:-1], len(TEXT))
            assert caught.value.before == TEXT

    def test_blocks_that_build_on_each_other_are_refused(self) -> None:
        with pytest.raises(DecompressionError, match="Dependent"):
            decompress(Compression.LZ4, lz4.frame.compress(TEXT, block_linked=True), len(TEXT))

    def test_a_wrong_checksum_of_the_descriptor_is_an_error(self) -> None:
        frame = bytearray(lz4.frame.compress(TEXT, store_size=True, block_linked=False))
        frame[14] ^= 1
        with pytest.raises(DecompressionError):
            decompress(Compression.LZ4, frame, len(TEXT))


class TestZstd:
    def test_what_lies_before_the_cut_is_known(self) -> None:
        joined = compress(Compression.ZSTD, b"one") + compress(Compression.ZSTD, b"two")[:-1]
        with pytest.raises(DecompressionError) as caught:
            decompress(Compression.ZSTD, joined, 100)
        assert caught.value.before == b"onetwo"

    def test_frames_are_joined(self) -> None:
        joined = compress(Compression.ZSTD, b"one") + compress(Compression.ZSTD, b"two")
        assert decompress(Compression.ZSTD, joined, 6) == b"onetwo"
        with pytest.raises(DecompressedTooLargeError):
            decompress(Compression.ZSTD, joined, 5)

    def test_the_level_counts(self) -> None:
        varied = b"".join(b"%d %d\n" % (index * 7919 % 1000, index) for index in range(3000))
        assert len(compress(Compression.ZSTD, varied, -5)) > len(compress(Compression.ZSTD, varied, 19))
