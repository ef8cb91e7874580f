"""YOLO's boxes and polygons: arrays and lines give the same dicts, and the same error."""

import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reid_torchmetrics.data import read_yolo, yolo_files
from tests.profiles import examples

CLASSES = ["0", "3", "2.0", "7e0", "79"]
SHARES = ["0.5", "0.250000", "0.125000", "1", "0", "1.005", "-0.005", ".5", "5e-1", "0.1234567890123456789"]
FAULTS = [
    "0 0.5 0.5 0.2",
    "0 0.5 0.5 0.2 nan",
    "0 0.5 inf 0.2 0.2 0.5",
    "0 0.5 0.5 0.2 x 0.5",
    "0 0.5 0.5 0.2 0,5 0.5",
    "x 0.5 0.5 0.2 0.2 0.5",
    "-1 0.5 0.5 0.2 0.2",
    "1.5 0.5 0.5 0.2 0.2",
    "9223372036854775808 0.5 0.5 0.2 0.2",
    "9007199254740993.0 0.5 0.5 0.2 0.2",
    "0 0.5 0.5 0.2 1_0 0.5",
    "0 0.5 0.5 0.2 2 0.5",
    "0 0.5 0.5 0.2 0.2 7",
    "0 0.1 0.1 0.9 0.1 0.5 0.9",
    "0 0.1 0.1 0.9 0.1 0.5 0.9 0.5",
    "0 0.1 0.1 0.9 0.1 0.9 0.9 0.1 0.9",
    "0 0.5 0.5 0.2 0.2 0.5 3",
    "0 0.5 0.5 0.2 0.2 0.5 x",
    "# a comment",
    "\0 0.5 0.5 0.2 0.2",
]
BREAKS = ["\n", "\n", "\r\n", "\n\n", "\n \n", "\n\x0b\n", "\r"]


@st.composite
def folders(draw):
    """Texts of the labels and of the results by the name of the image; about half have no fault."""
    shares = draw(st.sampled_from([SHARES, SHARES[:3], ["0.25", "0.50"], ["0.900000", "0.800000"]]))
    has_ids = draw(st.booleans())
    may_be_at_fault = draw(st.booleans())
    texts = {}
    lengths = draw(st.sampled_from([[4], [4, 6, 8], [6, 8, 10], [4, 6], [6], [8], [4, 7]]))
    for folder in ("labels", "results"):
        num_scores = int(folder == "results")
        for name in draw(st.sets(st.sampled_from(["a", "b", "c.jpg", "c"]), min_size=1)):
            lines = []
            for _ in range(draw(st.integers(0, 4))):
                num_numbers = draw(st.sampled_from(lengths)) + num_scores
                numbers = [draw(st.sampled_from(shares)) for _ in range(num_numbers)]
                ids = ["3"] if has_ids and folder == "results" else []
                lines.append(
                    draw(st.sampled_from([" ", "\t", "  "])).join([draw(st.sampled_from(CLASSES)), *numbers, *ids])
                )
            if may_be_at_fault and draw(st.sampled_from([False, False, True])):
                lines.insert(draw(st.integers(0, len(lines))), draw(st.sampled_from(FAULTS)))
            line_break = draw(st.sampled_from(BREAKS))
            start = draw(st.sampled_from(["", "\ufeff", "\n"]))
            end = draw(st.sampled_from(["", line_break]))
            texts[folder, name] = start + line_break.join(lines) + end
    return texts


def outcome(labels, results, **options):
    """The dicts with all that tensors hold, or the text of the error, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            images = read_yolo(labels, results, **options)
        except ValueError as error:
            read = str(error)
        else:
            read = [[list(map(described, image.items())) for image in side] for side in images]
    return read, [str(warning.message) for warning in caught]


def described(item):
    key, value = item
    if not isinstance(value, torch.Tensor):
        return key, value
    return key, value.dtype, tuple(value.shape), value.numpy().tobytes()


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("yolo")


SIZES = [None, (640, 480), {"a": (3, 7), "b.png": (1, 2), "c": (5, 5)}]


@examples(80)
@given(texts=folders(), sizes=st.sampled_from(SIZES), iou_type=st.sampled_from([None, "bbox"]))
def test_arrays_and_lines_read_the_same_or_fail_with_the_same_words(root, texts, sizes, iou_type):
    for folder in ("labels", "results"):
        (root / folder).mkdir(exist_ok=True)
        for path in (root / folder).iterdir():
            path.unlink()
    for (folder, name), text in texts.items():
        (root / folder / f"{name}.txt").write_text(text, encoding="utf-8", newline="")
    options = {"image_sizes": sizes, "iou_type": iou_type}
    for pair in (("labels", "results"), ("results", "labels")):  # exchanged, too
        paths = [root / folder for folder in pair]
        by_arrays = outcome(*paths, **options)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(yolo_files, "read_shapes", lambda *_, **__: None)
            by_lines = outcome(*paths, **options)
        assert by_arrays == by_lines


def edges_of(numbers):
    """Left, top, right and bottom of a box, or of a polygon."""
    if len(numbers) < 6:
        x, y, width, height = numbers[:4]
        return [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
    return [min(numbers[::2]), min(numbers[1::2]), max(numbers[::2]), max(numbers[1::2])]


def test_boxes_are_those_of_a_loop_over_lines_without_a_look_at_them(tmp_path, monkeypatch):
    texts = {
        "labels": {
            "e": "4 0.1 0.2 0.3 0.1 0.2 0.4\n4 0 1 .5 .5 .25 .75 1 0",
            "a": "\ufeff0 0.5 0.5 0.25 0.5\r\n\r\n2.0 .25 0.75 0.5 0.1",
            "b": "\n",
            "c": "7 0.5 0.5 1 1\n",
        },
        "results": {"a": "0 0.5 0.5 0.25 0.5 0.75\n", "d": "1\t0.5 0.125  0.25 0.25 1e-1\n3 0.5 0.5 0.5 0.5 1\n"},
    }
    expected = {}
    for folder, files in texts.items():
        (tmp_path / folder).mkdir()
        for name, text in files.items():
            (tmp_path / folder / f"{name}.txt").write_text(text, encoding="utf-8", newline="")
            for line in text.lstrip("\ufeff").split("\n"):
                words = line.split()
                if words:
                    numbers = list(map(float, words[1:]))
                    edges = edges_of(numbers)
                    left, top, right, bottom = edges
                    edges = [left * 640, top * 480, right * 640, bottom * 480]
                    scores = numbers[-1:] if folder == "results" else []
                    row = [float(words[0]), *edges, *scores]
                    expected.setdefault((folder, name), []).append(row)
    monkeypatch.setattr(yolo_files, "read_lines", None)
    preds, target = read_yolo(tmp_path / "labels", tmp_path / "results", image_sizes=(640, 480))
    assert [image["image_id"] for image in target] == ["a", "b", "c", "d", "e"]
    for folder, images in (("results", preds), ("labels", target)):
        for name, image in zip("abcde", images, strict=True):
            columns = [image["labels"][:, None], image["boxes"]]
            if folder == "results":
                columns.append(image["scores"][:, None])
            assert torch.cat(columns, 1).tolist() == expected.get((folder, name), [])
            assert image["labels"].dtype == torch.int64


def test_the_boxes_of_an_image_keep_no_other_boxes(tmp_path):
    for folder, score in (("labels", ""), ("results", " 0.5")):
        (tmp_path / folder).mkdir()
        for name in range(100):
            (tmp_path / folder / f"{name}.txt").write_text(f"0 0.5 0.5 0.5 0.5{score}\n", encoding="utf-8")
    (image, *_), _ = read_yolo(tmp_path / "labels", tmp_path / "results")
    assert image["boxes"].untyped_storage().nbytes() == 4 * 8
