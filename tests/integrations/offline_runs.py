"""What W&B keeps of an offline run: its log, and the rows in it."""

import json
import struct
from collections.abc import Iterator

import pytest


def records(folder, kind: str) -> list:
    """The records of a kind in the only offline run of W&B."""
    internal = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    (path,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    every = [internal.Record.FromString(data) for data in stored(path.read_bytes())]
    return [getattr(each, kind) for each in every if each.WhichOneof("record_type") == kind]


def history(folder) -> list[dict]:
    """The rows of the run."""
    names = [
        {each.key or "/".join(each.nested_key): each.value_json for each in row.item}
        for row in records(folder, "history")
    ]
    return [{name: json.loads(value) for name, value in row.items()} for row in names]


def stored(contents: bytes) -> Iterator[bytes]:
    """The records of a log in LevelDB's format, behind 7 bytes of W&B: parts of blocks of 32 KiB, each with a head."""
    head, place, record = struct.Struct("<IHB"), 7, b""  # checksum, length, and whether it is the last part
    while place + head.size <= len(contents):
        if (left := -place % 32768) < head.size and left:  # too few bytes for a head end a block
            place += left
            continue
        _, length, kind = head.unpack_from(contents, place)
        record += contents[place + head.size : place + head.size + length]
        place += head.size + length
        if kind in (1, 4):  # whole, or the last part
            yield record
            record = b""
