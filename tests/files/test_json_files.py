"""JSON: values and errors are those of `json`, although msgspec reads most files."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.files import access, parsed

CONTENTS = {
    "boxes": b'[{"image_id": 1, "bbox": [0.5, 1e2, 3, -4.25], "score": 0.0012345678901234567}]',
    "NaN": b'[{"score": NaN}, Infinity, -Infinity]',
    "a float beyond the range": b"[1e999, -1e999]",
    "a key that is repeated": b'{"a": 1, "b": 2, "a": 3}',
    "integers of 64 bits": b"[9223372036854775807, -9223372036854775808, 18446744073709551615]",
    "integers beyond 64 bits": b"[18446744073709551616, -9223372036854775809, 12345678901234567890123]",
    "an integer alone": b"18446744073709551616",
    "a long fraction": b"[0.1234567890123456789012345, 12.00000000000000000000000000001]",
    "a long integer before a point": b"[12345678901234567890123.5]",
    "minus zero": b"[-0, -0.0, 0]",
    "a lone surrogate": b'["\\ud800"]',
    "bytes that are no UTF-8": b'{"a": "\xff"}',
    "a byte order mark": b"\xef\xbb\xbf[]",
    "UTF-16": "[]".encode("utf-16"),
    "other letters": '{"\u00e9": "\U0001f600\\n"}'.encode(),
    "a comma too many": b"[1, 2,]",
    "two line breaks and a fault": b"[1,\r\n2,\r\n x]",
    "a leading zero": b"[01]",
    "a control character": b'["\x01"]',
    "nothing": b"",
    "only half": b'{"a": [1, 2',
    "lists that are nested too deep": b"[" * 100_000 + b"]" * 100_000,
    "lists that are nested": b"[" * 100 + b"]" * 100,
}


def outcome(path):
    try:
        return repr(parsed(path))
    except ValueError as error:
        return str(error)


def outcome_of_json(path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            access.msgspec.json, "decode", lambda contents: json.loads(contents.decode(json.detect_encoding(contents)))
        )
        return outcome(path)


@pytest.mark.parametrize("content", CONTENTS)
def test_json_is_read_as_by_json(content, tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(CONTENTS[content])
    assert outcome(path) == outcome_of_json(path)


NUMBERS = st.integers(-(10**25), 10**25) | st.floats(allow_nan=False) | st.sampled_from([2**63, 2**64, -(2**63) - 1])
VALUES = st.recursive(
    NUMBERS | st.text() | st.none() | st.booleans(),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(max_size=3), inside, max_size=4),
)


@given(value=VALUES, is_ascii=st.booleans(), cut=st.integers(0, 400))
def test_any_json_and_any_part_of_it_is_read_alike(tmp_path_factory, value, is_ascii, cut):
    path = tmp_path_factory.getbasetemp() / "any.json"
    text = json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    for contents in (text, text[:cut]):
        path.write_bytes(contents)
        assert outcome(path) == outcome_of_json(path)


def test_msgspec_reads_boxes(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    path.write_bytes(CONTENTS["boxes"])
    monkeypatch.delattr(json, "loads")
    assert access.read_json(path) == [{"image_id": 1, "bbox": [0.5, 100.0, 3, -4.25], "score": 0.0012345678901234567}]


@pytest.mark.parametrize("other", ["1", "NaN"])
def test_some_keys_of_an_object_are_read_alone(tmp_path, other):
    path = tmp_path / "a.json"
    path.write_text(f'{{"a": [{{"b": 1}}], "c": {other}, "d": 3}}', encoding="utf-8")
    assert access.read_keys(path, ("a", "e")) == {"a": [{"b": 1}], "e": None}
