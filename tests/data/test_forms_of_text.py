"""Text files are read by the form that all their lines have; a file that fits several forms is an error."""

import numpy as np
import pytest

from reid_torchmetrics import command
from reid_torchmetrics.data import read_pairs, read_retrieved

SCORES = np.array([0.9, 0.1, 0.2, 0.8, 0.3, 0.85])
SAME = [1, 0, 0, 1, 0, 0]
PAIRS = {
    "templates": [(1, 11065), (2, 7), (2, 9), (3, 8), (4, 9), (5, 12)],
    "large numbers": [(41, 17), (42, 18), (43, 19), (44, 20), (45, 21), (46, 22)],
    "names": [("a.jpg", "b.jpg")] * 6,
    "first numbers are 0 or 1": [(0, 1), (0, 2), (1, 2), (1, 3), (0, 3), (1, 4)],
}
WRITERS = {
    "last": lambda pair, same: f"{pair[0]} {pair[1]} {same}",
    "first": lambda pair, same: f"{same} {pair[0]} {pair[1]}",
}


def write(folder, pairs, form):
    lines = [WRITERS[form](pair, same) for pair, same in zip(pairs, SAME, strict=True)]
    (folder / "pairs.txt").write_text("\n".join(lines), encoding="utf-8")
    np.savetxt(folder / "scores.txt", SCORES)
    return folder / "pairs.txt", folder / "scores.txt"


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize("kind", PAIRS)
def test_a_form_that_is_said_is_the_one(tmp_path, kind, form):
    scores, same = read_pairs(*write(tmp_path, PAIRS[kind], form), form=form)
    assert same.tolist() == [bool(flag) for flag in SAME]
    assert scores.tolist() == SCORES.tolist()


@pytest.mark.parametrize("kind", ["templates", "large numbers", "names"])
def test_the_form_that_all_lines_have_is_found(tmp_path, kind):
    _, same = read_pairs(*write(tmp_path, PAIRS[kind], "last"))
    assert same.tolist() == [bool(flag) for flag in SAME]


def test_lines_that_fit_several_forms_are_an_error(tmp_path, capsys):
    files = write(tmp_path, PAIRS["first numbers are 0 or 1"], "last")
    message = (
        r"lines must fit one form, which an argument such as `form='first'` says, one of first, last; got lines that"
    )
    with pytest.raises(ValueError, match=message):
        read_pairs(*files)
    assert command.main(["pairs", *map(str, files)]) == 1
    assert "--form" in capsys.readouterr().err
    assert command.main(["pairs", *map(str, files), "--form", "last", "--reports", "auc"]) == 0
    assert "87.5" in capsys.readouterr().out  # 7 of the 8 pairs of a genuine and an impostor score are in order


def test_lfw_has_no_image_0(tmp_path):
    lines = ["Ann 1 4", "Ann 2 Bob 3", "Bob 1 2"]
    (tmp_path / "lfw.txt").write_text("\n".join(["2", *lines]), encoding="utf-8")
    np.savetxt(tmp_path / "scores.txt", [0.9, 0.1, 0.8])
    _, same = read_pairs(tmp_path / "lfw.txt", tmp_path / "scores.txt")
    assert same.tolist() == [True, False, True]
    (tmp_path / "lfw.txt").write_text("\n".join([*lines, "Ann 0 4"]), encoding="utf-8")
    with pytest.raises(ValueError, match=r"lfw.txt:4: lines must all be of one form"):
        read_pairs(tmp_path / "lfw.txt", tmp_path / "scores.txt", form="lfw")


def test_lists_of_six_columns_are_no_run(tmp_path):
    (tmp_path / "lists.txt").write_text("0 3 4 5 6 7\n1 4 5 6 7 8\n2 1 2 3 4 5\n", encoding="utf-8")
    with pytest.raises(
        ValueError,
        match=r"lines must fit one form, which an argument such as `form='query'` says, one of query, items; got",
    ):
        read_retrieved(tmp_path / "lists.txt")
    assert read_retrieved(tmp_path / "lists.txt", form="items")[0] == [0, 3, 4, 5, 6, 7]
    assert read_retrieved(tmp_path / "lists.txt", form="query")["0"] == ["3", "4", "5", "6", "7"]
    (tmp_path / "run.txt").write_text("q1 Q0 d1 1 0.5 x\nq1 Q0 d2 2 0.25 x\n", encoding="utf-8")
    assert read_retrieved(tmp_path / "run.txt") == {"q1": {"d1": 0.5, "d2": 0.25}}


def test_an_unknown_form_is_refused(tmp_path):
    with pytest.raises(ValueError, match="`form` must be one of 'first', 'last', 'lfw'; got 'second'"):
        read_pairs(*write(tmp_path, PAIRS["names"], "last"), form="second")
