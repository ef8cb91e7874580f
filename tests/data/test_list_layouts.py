"""Ranked lists and their truth in text, as the projects that are named write them."""

import re
from itertools import pairwise, product

import numpy as np
import pytest

from reid_torchmetrics import evaluate
from reid_torchmetrics.command import main
from reid_torchmetrics.data import read_ground_truth, read_retrieved
from reid_torchmetrics.tasks import evaluate_lists
from tests.data.texts import written

RETRIEVED = {
    "MS MARCO run": ("run.tsv", "2\t77\t1\n2\t55\t2\n9\t55\t1\n", {"2": ["77", "55"], "9": ["55"]}),
    "MS MARCO run with names": ("run.tsv", "q d1 1\nq d2 2\n", {"q": ["d1", "d2"]}),
    "a run whose lines are not in order": ("run.tsv", "q d2 2\nq d1 1\n", {"q": ["d1", "d2"]}),
    "hloc pairs": ("pairs.txt", "q/1.jpg db/7.jpg\nq/1.jpg db/3.jpg\n", {"q/1.jpg": ["db/7.jpg", "db/3.jpg"]}),
    "MSLS predictions": ("predictions.csv.txt", "kA kB kC kD\nkE kF kG kH\n", {"kA": [*"BCD"], "kE": [*"FGH"]}),
    "Kaggle": ("submission.csv", "id,images\nq1,a b\nq2,\n", {"q1": ["a", "b"], "q2": []}),
    "a row for each item": ("run.csv", "query,item\nq1,b\nq1,a\nq2,a\n", {"q1": ["b", "a"], "q2": ["a"]}),
    "VisDA": ("result.txt", "3 1 0\n3 2 0\n", [[3, 1, 0], [3, 2, 0]]),
    "whole scores by their header": (
        "run.tsv",
        "qid\tdocno\tscore\nq\td1\t9\nq\td2\t7\n",
        {"q": {"d1": 9.0, "d2": 7.0}},
    ),
    "scores of q_id": ("run.tsv", "q_id d_id score\nq d1 9\nq d2 7\n", {"q": {"d1": 9.0, "d2": 7.0}}),
    "ranks by their header": ("run.tsv", "qid pid rank\nq d2 7\nq d1 3\n", {"q": ["d1", "d2"]}),
    "scores without a header": ("run.txt", "q d1 0.5\nq d2 0.25\n", {"q": {"d1": 0.5, "d2": 0.25}}),
    "TREC of integers": ("a.run", "1 0 5 1 0.5 x\n1 0 6 2 0.25 x\n", {"1": {"5": 0.5, "6": 0.25}}),
}
TRUTH = {
    "BEIR test.tsv": ("test.tsv", "query-id\tcorpus-id\tscore\n1\t7\t2\n1\t9\t0\n", {"1": {"7": 2, "9": 0}}),
    "grades of names": ("qrels.txt", "q d1 2\nq d2 0\n", {"q": {"d1": 2, "d2": 0}}),
    "MS MARCO qrels": ("qrels.tsv", "1\t0\t7\t1\n2\t0\t9\t1\n", {"1": {"7": 1}, "2": {"9": 1}}),
    "hloc pairs": ("pairs.txt", "q/1.jpg db/7.jpg\nq/1.jpg db/3.jpg\n", {"q/1.jpg": ["db/7.jpg", "db/3.jpg"]}),
    "Kaggle": ("solution.csv", "id,images\nq1,a b\n", {"q1": ["a", "b"]}),
    "VeRi gt_index.txt": ("gt_index.txt", "4 5 6 \n7\n\n8 9 \n", [[4, 5, 6], [7], [], [8, 9]]),
}


@pytest.mark.parametrize("layout", RETRIEVED)
def test_lists_are_read_as_their_project_writes_them(layout, tmp_path):
    name, text, expected = RETRIEVED[layout]
    lists = read_retrieved(written(tmp_path / name, text))
    if layout == "MSLS predictions":
        lists = {query: [item[1:] for item in items] for query, items in lists.items()}
    assert lists == expected


def test_a_run_that_is_cut_off_is_no_list_of_items(tmp_path):
    line = "q1 Q0 7 1 0.5 x\n"
    lengths = [place for place in range(1, len(line)) if line[:place].split()[1:2] == ["Q0"]]
    for earlier, length in product(("", line, "query Q0 item rank score name\n"), lengths):
        text = earlier + line[:length].replace("q1", "q2")
        if len(text.split()) % 6 == 0:
            continue  # the name of the run is cut off, or nothing
        rule = "a line must be query Q0 item rank score name, and not be cut off"
        if len(line[:length].split()) == 2:
            rule = f"{rule}, unless `form='query'` says that Q0 is an item"
        where = f"{tmp_path / 'a.run'}:{1 + bool(earlier)}"
        with pytest.raises(ValueError, match=re.escape(f"{where}: {rule}; got 'q2 Q0")):
            read_retrieved(written(tmp_path / "a.run", text))


@pytest.mark.parametrize(
    ("text", "form"),
    [("q Q0\nq d1\n", "query"), ("q Q0\n", "query"), ("q d1\nq Q0\n", None), ("query item\nq Q0\n", "query")],
)
def test_an_item_may_have_the_name_q0(text, form, tmp_path):
    path = written(tmp_path / "pairs.txt", text)
    items = [line.split()[1] for line in text.splitlines() if line.startswith("q ")]
    assert read_retrieved(path, form=form) == {"q": items}
    assert read_ground_truth(path, form=form and "pairs") == {"q": items}


def test_distances_are_no_scores(tmp_path):
    path = written(tmp_path / "run.tsv", "query_id item_id distance\nq d1 1\nq d2 2\n")
    with pytest.raises(ValueError, match=r"run\.tsv: the third column must be `rank` or `score`.*; got .*`distance`"):
        read_retrieved(path)


@pytest.mark.parametrize("layout", TRUTH)
def test_the_truth_is_read_as_its_project_writes_it(layout, tmp_path):
    name, text, expected = TRUTH[layout]
    assert read_ground_truth(written(tmp_path / name, text)) == expected


@pytest.mark.parametrize(
    ("read", "text", "forms"),
    [
        (read_retrieved, "0 3 4\n1 4 5\n", "rank, query, items"),
        (read_retrieved, "q d1 1\nr d2 1\n", "rank, query"),
        (read_retrieved, "0 3\n0 4\n", "query, items"),
        (read_ground_truth, "0 3 1\n0 4 1\n", "grades, items"),
        (read_ground_truth, "0 3\n1 4\n", "pairs, items"),
        (read_ground_truth, "1 0 5 1\n1 1 6 1\n", "qrels, items"),
    ],
)
def test_lines_that_fit_several_forms_are_an_error_and_each_form_can_be_said(read, text, forms, tmp_path):
    path = written(tmp_path / "a.txt", text)
    rule = f"lines must fit one form, which an argument such as `form='{forms.split(', ')[0]}'` says, one of {forms}"
    with pytest.raises(ValueError, match=re.escape(f"{path}: {rule}; got lines that are ")):
        read(path)
    results = [read(path, form=form) for form in forms.split(", ")]
    assert all(first != second for first, second in pairwise(results))


@pytest.mark.parametrize(
    ("read", "text", "form", "message"),
    [
        (read_retrieved, "q d1 1\nq d1 2\n", None, ":2: a query must have an item once; got 'd1' again for 'q'."),
        (read_retrieved, "a b c d\na e f\n", None, ":2: a query with several items must have one line; got 'a' again."),
        (read_retrieved, "q a 1\nq b 1\n", None, ": the ranks of a query must differ; got [1, 1] for 'q'."),
        (read_retrieved, "q Q0 a 1 1 x\nq Q1 b 2 1 x\n", None, ":2: the second column of a run must be one word, such"),
        (read_retrieved, "3 4\n3 b\n", "items", ":2: a line must be item item ...; got '3 b'."),
        (read_retrieved, "q a b a\n", None, ":1: a query must have an item once; got 'a' again for 'q'."),
        (read_ground_truth, "q 0 d 1.5\n", None, ":1: a line must be query 0 item grade; got 'q 0 d 1.5'."),
        (
            read_retrieved,
            "q d\n",
            "pairs",
            "`form` must be one of 'run', 'rank', 'query', 'items', 'scores'; got 'pairs'.",
        ),
    ],
)
def test_a_line_of_another_form_is_named(read, text, form, message, tmp_path):
    with pytest.raises(ValueError, match=re.escape(message)):
        read(written(tmp_path / "a.txt", text), form=form)


@pytest.mark.parametrize("text", ["id,images\nq,a b\nq,b c\n", "id,images,Usage\nq,a,Public\n", "q1,a b\nq2,c d\n", ""])
def test_a_csv_of_other_columns_is_no_list(text, tmp_path):
    with pytest.raises(ValueError, match=r"a\.csv: the file must be comma-separated values, a query and its items by"):
        read_retrieved(written(tmp_path / "a.csv", text))


def test_numbers_from_one_are_counted_from_zero(tmp_path):
    text = written(tmp_path / "gt_index.txt", "1 3\n2\n")
    np.save(tmp_path / "I.npy", np.array([[1, 3, 0]]))
    assert read_ground_truth(text, one_based=True) == [[0, 2], [1]]
    assert read_retrieved(tmp_path / "I.npy", one_based=True).tolist() == [[0, 2, -1]]
    for contents, came in (("1 0\n2 3 4\n", "0"), ("q d\n", "'d'")):
        with pytest.raises(ValueError, match=f"items that count from 1 must be numbers from 1 on; got {came}."):
            read_ground_truth(written(tmp_path / "b.txt", contents), one_based=True)


def veri(folder):
    """VeRi's files of two queries and four images: 1 and 4 are right, and 2 and 1 are junk."""
    written(folder / "gt_index.txt", "1 \n4 \n")
    written(folder / "jk_index.txt", "2 \n1 \n")
    return folder


# The first query finds junk, another image, and then its positive: 1/2; the second finds its positive first: 1.
RANKED = "2 3 1 4\n4 1 2 3\n"


def test_the_folder_of_veri_has_positives_and_junk(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    truth = read_ground_truth(veri(tmp_path), one_based=True)
    assert truth == [{"ok": [0], "junk": [1]}, {"ok": [3], "junk": [0]}]
    written(tmp_path / "ranked.txt", RANKED)
    lists = read_retrieved("ranked.txt", form="items", one_based=True)
    assert evaluate_lists(lists, truth)["map"] == 0.75
    words = ["lists", "ranked.txt", ".", "--form", "items", "--one-based", "--reports", "map"]
    assert main(words) == 0
    assert "75" in capsys.readouterr().out


def test_embeddings_are_evaluated_with_the_truth_of_veri(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = veri(tmp_path)
    scores = np.array([[0.2, 0.8, 0.5, 0.1], [0.6, 0.4, 0.2, 0.9]])
    query, gallery = np.eye(2), scores.T.copy()
    np.save("q.npy", query)
    np.save("g.npy", gallery)
    truth = read_ground_truth(folder, one_based=True)
    options = {"similarity": "dot", "reports": ("map",), "positive_lists": ("ok",), "junk_lists": ("junk",)}
    assert evaluate(query, gallery, ground_truth=truth, **options)["map"] == 0.75
    words = ["--ground-truth", ".", "--one-based", "--similarity", "dot", "--reports", "map"]
    assert main(["evaluate", "q.npy", "g.npy", *words]) == 0
    assert "75" in capsys.readouterr().out
    assert main(["evaluate", "q.npy", "g.npy", "--one-based"]) == 2
    assert "`--ground-truth-form` and `--one-based` must come with `--ground-truth`" in capsys.readouterr().err


def test_the_lists_of_visda_are_evaluated_by_labels(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "result.txt", "2 0 1\n1 2 0\n")
    written(tmp_path / "query.txt", "5\n6\n")
    written(tmp_path / "gallery.txt", "5\n6\n7\n")
    words = ["result.txt", "--form", "items", "--labels", "query.txt", "gallery.txt", "--reports", "map"]
    assert main(["lists", *words]) == 0
    assert "75" in capsys.readouterr().out  # the first query finds its identity second, the other one first
    assert main(["lists", *words, "--ground-truth-form", "items"]) == 2


def test_judgements_of_beir_fit_a_run_of_ms_marco(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "run.tsv", "1\t7\t1\n1\t9\t2\n2\t9\t1\n2\t7\t2\n")
    written(tmp_path / "test.tsv", "query-id\tcorpus-id\tscore\n1\t9\t1\n2\t9\t1\n")
    assert main(["lists", "run.tsv", "test.tsv", "--reports", "mrr"]) == 0
    assert "75" in capsys.readouterr().out


@pytest.mark.parametrize(
    "header",
    ["query item cosine_distance", "query item L2", "query Q0 item rank dist run", "query item rank score"],
)
def test_columns_of_distances_or_of_no_form_are_refused_by_their_header(header, tmp_path):
    path = written(tmp_path / "run.txt", f"{header}\nq d1 0.5\n")
    *_, got = header.split()
    with pytest.raises(ValueError, match=f"third column must be `rank` or `score`.*; got `query`, .*`{got}`"):
        read_retrieved(path)


@pytest.mark.parametrize("name", ["cosine", "sim_score", "similarities"])
def test_other_words_for_scores_tell_the_form_of_whole_numbers(name, tmp_path):
    assert read_retrieved(written(tmp_path / "run.txt", f"query item {name}\nq d1 1\nq d2 2\n")) == {
        "q": {"d1": 1, "d2": 2}
    }


def test_an_empty_file_has_no_lists(tmp_path):
    with pytest.raises(ValueError, match=r"run.txt: the file must have lines of .*; got none"):
        read_retrieved(written(tmp_path / "run.txt", "\n"))
