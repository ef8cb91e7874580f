"""The contract of a reader of files: what every reader, and every suffix, must satisfy, and ones that do not.

A file that is cut anywhere is refused by an error that names it. A cut between the rows of a text, or between vectors,
leaves a whole file; there the rows that are read must be the first ones.
"""

import inspect
import io
import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

from reid_torchmetrics import data
from reid_torchmetrics.data import read_labels, read_samples
from reid_torchmetrics.data.array_files import FORMATS, Format
from reid_torchmetrics.data.table_files import TABLES, TEXTS
from tests.contracts.missing import assert_nothing_missing
from tests.profiles import each_row

SECURITY = (Path(__file__).parents[2] / "SECURITY.md").read_text(encoding="utf-8")
SECTION = SECURITY.partition("## What the library reads\n")[2].partition("\n## ")[0]
FILES = (Path(__file__).parents[2] / "docs" / "how_to" / "files.md").read_text(encoding="utf-8")
SUFFIXES: Mapping[str, Format] = FORMATS | TABLES | TEXTS
FEATURES = np.arange(24, dtype=np.float32).reshape(6, 4)
IDENTITIES = np.array([13, 13, 25, 25, 37, 37])
NUM_CUTS = 40
SPACE, NO_SPACE = "1.5 1.6 4.0 1.0 2.0 30.0 0.5", "-1 -1 -1 -1000 -1000 -1000 -10"


def saved(save: Callable[..., Any], *arguments: Any, **options: Any) -> bytes:
    """What a function writes to a file."""
    file = io.BytesIO()
    save(file, *arguments, **options)
    return file.getvalue()


def by_torch() -> bytes:
    tensors = {"feat": torch.from_numpy(FEATURES), "pid": torch.from_numpy(IDENTITIES)}
    return saved(lambda file: torch.save(tensors, file))


def by_safetensors() -> bytes:
    numpy = pytest.importorskip("safetensors.numpy")
    return numpy.save({"feat": FEATURES, "pid": IDENTITIES})


def by_scipy() -> bytes:
    io_of_scipy = pytest.importorskip("scipy.io")
    return saved(io_of_scipy.savemat, {"feat": FEATURES, "pid": IDENTITIES})


def by_h5py() -> bytes:
    h5py = pytest.importorskip("h5py")
    file = io.BytesIO()
    with h5py.File(file, "w") as archive:
        archive["feat"], archive["pid"] = FEATURES, IDENTITIES
    return file.getvalue()


def by_pyarrow() -> bytes:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    file = io.BytesIO()
    parquet.write_table(pyarrow.table({"pid": IDENTITIES}), file)
    return file.getvalue()


def as_vectors(code: str) -> bytes:
    """The length of each vector, and then its values."""
    return b"".join(struct.pack(f"<i4{code}", 4, *map(int if code == "B" else float, row)) for row in FEATURES)


def as_lines(separator: str) -> bytes:
    rows = [separator.join(("pid", "camid")), *(f"{identity}{separator}1" for identity in IDENTITIES)]
    return ("\n".join(rows) + "\n").encode()


WRITERS: dict[str, Callable[[], bytes]] = {
    ".npy": lambda: saved(np.save, IDENTITIES),
    ".npz": lambda: saved(np.savez, feat=FEATURES, pid=IDENTITIES),
    ".pt": by_torch,
    ".pth": by_torch,
    ".safetensors": by_safetensors,
    ".mat": by_scipy,
    ".h5": by_h5py,
    ".hdf5": by_h5py,
    ".fvecs": lambda: as_vectors("f"),
    ".bvecs": lambda: as_vectors("B"),
    ".csv": lambda: as_lines(","),
    ".tsv": lambda: as_lines("\t"),
    ".parquet": by_pyarrow,
    ".txt": lambda: as_lines(" "),
}
"""the contents of a file with `FEATURES`, or with `IDENTITIES` named "pid", by suffix"""
IN_ROWS = (".csv", ".tsv", ".txt", ".fvecs", ".bvecs")
"""suffixes of files that are whole after any row"""
OF_VECTORS = (".fvecs", ".bvecs")
"""suffixes of files that have embeddings alone"""


def cuts_of(contents: bytes) -> Iterator[bytes]:
    """A file, cut at places from its first byte to its last one."""
    for length in sorted({*np.linspace(0, len(contents) - 1, NUM_CUTS).astype(int).tolist()}):
        yield contents[:length]


def values_in(suffix: str, path: Path) -> list[Any]:
    """The identities, or the embeddings, in a file of a suffix."""
    if suffix in OF_VECTORS:
        (samples,) = read_samples(path)
        return np.asarray(samples.embeddings).tolist()
    return np.asarray(read_labels(path)["identities"]).tolist()


def has_suffix(text: str, suffix: str) -> bool:
    """Whether a text names a suffix by itself, and not at the end of a name."""
    return re.search(rf"(?<!\w){re.escape(suffix)}\b", text) is not None


def check_suffix(suffix: str, folder: Path) -> None:
    """Raise an AssertionError unless a suffix keeps the contract of a format; its message says what to add."""
    example_words = "has no example: add how such a file is written to `WRITERS` in tests/contracts/test_readers.py"
    reader = read_samples if suffix in FORMATS else read_labels
    found = {
        example_words: suffix in WRITERS,
        f"is not in the docstring of `{reader.__name__}`: add it": has_suffix(inspect.getdoc(reader) or "", suffix),
        "is not in SECURITY.md: add it to the row of its reader, with what reads it": suffix in SECTION,
        "is not in docs/how_to/files.md: say there what such a file holds": has_suffix(FILES, suffix),
    }
    assert_nothing_missing(suffix, found)
    contents, path = WRITERS[suffix](), folder / f"samples{suffix}"
    path.write_bytes(contents)
    whole = FEATURES.tolist() if suffix in OF_VECTORS else IDENTITIES.tolist()
    values = values_in(suffix, path)
    assert values == whole, f"a file with {suffix!r} is read as {values}, not as {whole}"
    for cut in cuts_of(contents):
        path.write_bytes(cut)
        rows = refusal_or_result([path.name], lambda: values_in(suffix, path))
        if rows is not None:
            assert suffix in IN_ROWS, f"a file with {suffix!r} that is cut after {len(cut)} bytes is read: refuse it"
            assert rows[:-1] == whole[: len(rows) - 1], f"a file with {suffix!r} that is cut is read as {rows}"
    with pytest.raises((FileNotFoundError, ValueError), match=f"missing{suffix}"):
        values_in(suffix, folder / f"missing{suffix}")


def refusal_or_result(names: Sequence[str], read: Callable[[], Any]) -> Any:
    """What files give, or None where they are refused by one line that names one of them."""
    result, refusal = None, ""
    try:
        result = read()
    except (TypeError, ValueError) as error:
        refusal = f"{type(error).__name__}: {error}"
    except Exception as error:
        raise AssertionError(f"{names} must be refused by a ValueError; got {type(error).__name__}: {error}") from error
    is_named = any(name in refusal for name in names)
    assert is_named or not refusal, f"an error must name a file, {names}; got {refusal}"
    assert "\n" not in refusal, f"an error must be one line; got {refusal!r}"
    return result


@dataclass(frozen=True)
class Example:
    """Small files of a reader, and what it gives for them."""

    files: Mapping[str, str | bytes]
    """the contents by the place in a folder"""
    read: Callable[[Callable[..., Any], Path], Any]
    """the call of a reader with a folder"""
    summary: Any
    """what `summary_of` makes of the result"""


def summary_of(result: Any) -> Any:
    """What is compared: labels of images, values of arrays, or the result itself."""
    if isinstance(result, tuple) and isinstance(result[0], list):
        return [[image["labels"].tolist() for image in side] for side in result]
    if isinstance(result, tuple):
        return [np.asarray(values).tolist() for values in result]
    if isinstance(result, list) and hasattr(result[0], "embeddings"):
        return [np.asarray(samples.embeddings).tolist() for samples in result]
    if isinstance(result, Mapping):
        return {
            name: np.asarray(value).tolist() if hasattr(value, "dtype") else value for name, value in result.items()
        }
    return result


def two_folders(read: Callable[..., Any], folder: Path) -> Any:
    return read(folder / "truths", folder / "found")


def one_file(name: str) -> Callable[[Callable[..., Any], Path], Any]:
    return lambda read, folder: read(folder / name)


VOC = """<annotation><object><name>dog</name><difficult>0</difficult><bndbox><xmin>11</xmin><ymin>21</ymin>
<xmax>110</xmax><ymax>120</ymax></bndbox></object></annotation>"""
CORNERS = "1.0 2 11 2.5 11 12 1 12"
EXAMPLES: dict[str, Example] = {
    "read_samples": Example({"a.npz": saved(np.savez, feat=FEATURES)}, one_file("a.npz"), [FEATURES.tolist()]),
    "read_labels": Example(
        {"a.csv": as_lines(",")}, one_file("a.csv"), {"identities": IDENTITIES.tolist(), "cameras": [1] * 6}
    ),
    "read_pairs": Example(
        {"pairs.txt": "1 a.jpg b.jpg\n0 a.jpg c.jpg\n", "scores.txt": "0.75 a.jpg b.jpg\n0.25 a.jpg c.jpg\n"},
        lambda read, folder: read(folder / "pairs.txt", folder / "scores.txt", form="first"),
        [[0.75, 0.25], [True, False]],
    ),
    "read_retrieved": Example(
        {"run.txt": "q Q0 a 1 0.9 me\nq Q0 b 2 0.8 me\n"}, one_file("run.txt"), {"q": {"a": 0.9, "b": 0.8}}
    ),
    "read_ground_truth": Example({"qrels.txt": "q 0 a 1\nq 0 b 0\n"}, one_file("qrels.txt"), {"q": {"a": 1, "b": 0}}),
    "read_voc": Example(
        {"truths/a.xml": VOC, "found/det_dog.txt": "a 0.9 11 21 110.5 120\n"}, two_folders, [[[11]], [[11]]]
    ),
    "read_dota": Example(
        {"truths/P1.txt": f"{CORNERS} ship 1\n", "found/Task1_ship.txt": f"P1 0.9 {CORNERS}\n"}, two_folders, None
    ),
    "read_yolo": Example(
        {"truths/a.txt": "3 0.5 0.5 0.25 0.5\n", "found/a.txt": "3 0.5 0.5 0.25 0.5 0.875\n"},
        two_folders,
        [[[3]], [[3]]],
    ),
    "read_cartucho": Example(
        {"truths/a.txt": "dog 1 2 11 12\n", "found/a.txt": "dog 0.75 1 2 11 13\n"},
        lambda read, folder: read(folder / "truths", folder / "found", ("cat", "dog")),
        [[[1]], [[1]]],
    ),
    "read_kitti": Example(
        {
            "truths/a.txt": f"Car 0.00 0 -1.57 10 20 30.5 40 {SPACE}\n",
            "found/a.txt": f"Car -1 -1 -10 10 20 30.5 40 {NO_SPACE} 0.5\n",
        },
        two_folders,
        [[[0]], [[0]]],
    ),
    "read_open_images": Example(
        {
            "truths.csv": "ImageID,LabelName,XMin,XMax,YMin,YMax,IsGroupOf\na,/m/dog,0.25,0.5,0.125,1,0\n",
            "found.csv": "ImageID,LabelName,Score,XMin,XMax,YMin,YMax\na,/m/dog,0.75,0.25,0.5,0,1\n",
        },
        lambda read, folder: read(folder / "truths.csv", folder / "found.csv", ["/m/cat", "/m/dog"]),
        [[[1]], [[1]]],
    ),
    "read_yolo_names": Example({"data.yaml": "names: [cat, dog]\n"}, one_file("data.yaml"), {0: "cat", 1: "dog"}),
}
"""examples, by the name of a reader"""
READERS = [name for name in data.__all__ if name.startswith("read_")]


def check_reader(name: str, read: Callable[..., Any], folder: Path) -> None:
    """Raise an AssertionError unless a reader keeps its contract; its message says what to add."""
    pages = [path.read_text(encoding="utf-8") for path in (Path(__file__).parents[2] / "docs").rglob("*.md")]
    example_words = (
        "has no example: add small files, and what it gives, to `EXAMPLES` in tests/contracts/test_readers.py"
    )
    page_words = "is on no page of docs/: add it to reference/data.md, and boxes to the table of files in detection.md"
    found = {
        example_words: name in EXAMPLES,
        "is not in SECURITY.md: add a row with the files that it reads": f"`{name}`" in SECTION,
        page_words: any(name in page for page in pages),
    }
    assert_nothing_missing(name, found)
    example = EXAMPLES[name]
    write_files(folder, example.files)
    summary = summary_of(example.read(read, folder))
    assert example.summary in (None, summary), f"{name!r} gives {summary}, not {example.summary}"
    names = [Path(place).name for place in example.files]
    for place, contents in example.files.items():
        whole = contents.encode() if isinstance(contents, str) else contents
        for cut in cuts_of(whole):
            write_files(folder, {**example.files, place: cut})
            refusal_or_result(names, lambda: example.read(read, folder))
        write_files(folder, example.files)
    with pytest.raises((OSError, TypeError, ValueError), match="nowhere"):
        example.read(read, folder / "nowhere")


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> None:
    for place, contents in files.items():
        path = folder / place
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(contents.encode() if isinstance(contents, str) else contents)


@each_row("suffix", SUFFIXES)
def test_a_suffix_keeps_its_contract(suffix, tmp_path):
    check_suffix(suffix, tmp_path)


@each_row("name", READERS)
def test_a_reader_keeps_its_contract(name, tmp_path):
    check_reader(name, getattr(data, name), tmp_path)


def test_every_example_is_of_a_row():
    assert WRITERS.keys() <= SUFFIXES.keys()
    assert EXAMPLES.keys() <= {*READERS}


def read_lines_of_json(path: Path) -> dict[str, Any]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def test_a_suffix_without_an_example_or_a_row_in_security_is_told_what_to_add(tmp_path):
    for words in (
        "has no example: add how such a file is written",
        r"is not in SECURITY\.md: add it",
        r"is not in docs/how_to/files\.md: say there",
    ):
        with pytest.raises(AssertionError, match=rf"'\.lines' {words}"):
            check_suffix(".lines", tmp_path)


def read_some_rows(path: Path) -> dict[str, Any]:
    """A reader that leaves out the last row."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {"pid": np.array([int(line.partition(",")[0]) for line in lines[1:-1]])}


@pytest.mark.parametrize(
    ("suffix", "read", "message"),
    [
        (".csv", read_some_rows, "a file with '.csv' is read as"),
        (".csv", read_lines_of_json, "must be refused by a ValueError|Expecting value"),
    ],
)
def test_a_suffix_that_breaks_the_contract_is_told_so(suffix, read, message, tmp_path):
    with (
        mock.patch.dict(TABLES, {suffix: Format(read, "anything")}),
        pytest.raises((AssertionError, ValueError), match=message),
    ):
        check_suffix(suffix, tmp_path)


def test_a_reader_that_breaks_the_contract_is_told_so(tmp_path):
    def careless(path: Path) -> dict[int, str]:
        return dict(enumerate(path.read_text(encoding="utf-8").split("[")[1].strip("]\n").split(", ")))

    with pytest.raises(AssertionError, match=r"data\.yaml.* must be refused by a ValueError; got IndexError"):
        check_reader("read_yolo_names", careless, tmp_path)
    with pytest.raises(AssertionError, match="'read_letters' has no example: add small files"):
        check_reader("read_letters", careless, tmp_path)
    wrong = replace(EXAMPLES["read_yolo_names"], summary={0: "dog"})
    with mock.patch.dict(EXAMPLES, {"read_yolo_names": wrong}), pytest.raises(AssertionError, match=r"gives .*, not"):
        check_reader("read_yolo_names", data.read_yolo_names, tmp_path)
