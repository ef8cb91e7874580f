"""Ranked lists and their truth, as TREC, faiss, Oxford and the revisited ones write them."""

import io
import json
import os
import pickle
import re

import numpy as np
import pytest
import torch

from reid_torchmetrics.data import read_ground_truth, read_retrieved
from reid_torchmetrics.tasks import evaluate_lists
from tests.data.texts import written

RUN = "q1 Q0 d2 1 0.9 mine\nq1\tQ0\td1 2 -1e-3 mine\r\n\nq2 Q0 d1 1 7 mine\n"
QRELS = "q1 0 d1 2\nq1 0 d3 0\nq2 0 d2 1\n"


@pytest.mark.parametrize("name", ["bm25.run", "bm25.trec", "bm25.txt", "input.bm25"])
def test_a_run_and_its_judgements(name, tmp_path):
    run = read_retrieved(written(tmp_path / name, RUN))
    qrels = read_ground_truth(written(tmp_path / "robust.qrels", QRELS))
    assert run == {"q1": {"d2": 0.9, "d1": -1e-3}, "q2": {"d1": 7.0}}
    assert qrels == {"q1": {"d1": 2, "d3": 0}, "q2": {"d2": 1}}
    assert evaluate_lists(run, qrels).means["map"] == 0.25


def test_the_neighbors_of_faiss(tmp_path):
    np.save(tmp_path / "I.npy", np.array([[4, 2, -1], [0, 1, 2]]))
    neighbors = read_retrieved(tmp_path / "I.npy")
    assert isinstance(neighbors, np.memmap)
    assert evaluate_lists(neighbors, [[2], [0]]).means["map"] == 0.75


@pytest.mark.parametrize(
    ("lists", "wrong"),
    [
        ({"a": [], "b": {"x": {"y": 1}}}, "[{'y': 1}] for 'b'"),
        ({"a": [1, 2], "b": {"x": {"y": 1}}}, "[{'y': 1}] for 'b'"),
        ([[1, 2], {"x": {"y": 1}}], "[{'y': 1}] for 1"),
        ({"a": [1, [2, 3]]}, "[1, [2, 3]] for 'a'"),
        ([[None]], "[None] for 0"),
        ([[[]]], "[[]] for 0"),
        ([[{}]], "[{}] for 0"),
    ],
)
def test_json_with_a_row_that_is_no_list_names_the_row(lists, wrong, tmp_path):
    path = written(tmp_path / "lists.json", json.dumps(lists))
    with pytest.raises(ValueError, match=f"got {re.escape(wrong)}"):
        read_retrieved(path)


def test_json_is_what_stands_in_it(tmp_path):
    for lists in ({"a": ["x", "y"]}, {"a": {"x": 0.5}}, [[1, 2], [3]]):
        assert read_retrieved(written(tmp_path / "lists.json", json.dumps(lists))) == lists
        assert read_ground_truth(tmp_path / "lists.json") == lists


@pytest.fixture
def oxford(tmp_path):
    """Two queries; good and ok are mixed in the list of the first, which repeats an item and names an unknown one."""
    folder = tmp_path / "gt files"
    folder.mkdir()
    lists = {
        "all_souls_1": {"good": "a\nb\n", "ok": "c\n", "junk": "j\n", "query": "oxc1_a 1.5 2 3 4\n"},
        "tower_é_2": {"good": "d", "ok": "", "junk": "\n"},
    }
    for query, files in lists.items():
        for name, text in files.items():
            written(folder / f"{query}_{name}.txt", text)
    written(folder / "README.txt", "no list of anything")
    (tmp_path / "ranked").mkdir()
    written(tmp_path / "ranked" / "all_souls_1.txt", "j\nc\nx\na\na\n")
    written(tmp_path / "ranked" / "tower_é_2.txt", "d\n")
    return folder, tmp_path / "ranked"


def test_oxford(oxford):
    truth, lists = read_ground_truth(oxford[0]), read_retrieved(oxford[1])
    assert truth == {
        "all_souls_1": {"good": ["a", "b"], "ok": ["c"], "junk": ["j"]},
        "tower_é_2": {"good": ["d"], "ok": [], "junk": []},
    }
    assert lists == {"all_souls_1": ["j", "c", "x", "a", "a"], "tower_é_2": ["d"]}
    assert read_retrieved(oxford[1] / "all_souls_1.txt") == lists["all_souls_1"]
    # Trapezoids without junk: c at 1 of 3 positives, a at 3, b missing: (1 + (1/2 + 2/3) / 2) / 3.
    values = evaluate_lists(lists, truth, protocol="oxford5k").per_query["map"]
    assert values.tolist() == pytest.approx([(1 + (1 / 2 + 2 / 3) / 2) / 3, 1])


REVISITED = {
    "imlist": ["all_souls_000013", "all_souls_000026", "oxford_002985"],
    "qimlist": ["all_souls_000013q", "tower_1"],
    "gnd": [
        {"bbx": np.array([1.5, 2, 3, 4]), "easy": np.array([1]), "hard": [np.int64(2)], "junk": np.array([], int)},
        {"bbx": [1, 2, 3, 4], "easy": np.array([0, 1], ">i4"), "hard": [], "junk": np.array([2])},
    ],
}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("core", ["numpy._core", "numpy.core"])
def test_revisited(protocol, core, tmp_path):
    contents = pickle.dumps(REVISITED, protocol)
    if protocol < 4:  # later ones write the length of a name
        contents = contents.replace(b"numpy._core", core.encode()).replace(b"numpy.core", core.encode())
    (tmp_path / "gnd_roxford5k.pkl").write_bytes(contents)
    assert read_ground_truth(tmp_path / "gnd_roxford5k.pkl") == {
        "all_souls_000013q": {"easy": ["all_souls_000026"], "hard": ["oxford_002985"], "junk": []},
        "tower_1": {"easy": ["all_souls_000013", "all_souls_000026"], "hard": [], "junk": ["oxford_002985"]},
    }


class Mischief:
    """Calls a function when it is unpickled."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize(
    "saved",
    [
        Mischief(os.getcwd),
        Mischief(eval, "1"),
        Mischief(getattr, "x", "upper"),
        Mischief(np.save, "x", 1),
        Mischief(np.frombuffer, b"1234"),
        Mischief(io.BytesIO, b"x"),
        torch.zeros(1),
        np.array([None]),
        np.array(["a"]),
        np.zeros(1, [("a", int)]),
        np.array([1j]),
    ],
)
@pytest.mark.parametrize("protocol", [2, 5])
def test_a_pickle_has_containers_and_arrays_of_numbers_only(saved, protocol, tmp_path):
    (tmp_path / "gnd.pkl").write_bytes(pickle.dumps(REVISITED | {"more": saved}, protocol))
    with pytest.raises(ValueError, match=r"gnd.pkl: the file must be .*; got (the class|an array of dtype) [^\n]*$"):
        read_ground_truth(tmp_path / "gnd.pkl")
