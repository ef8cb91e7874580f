"""`lists --exact`: recall of an index, and its numbers beside those of exact search, by the functions."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from reid_torchmetrics import command
from reid_torchmetrics.functional.retrieval import evaluate
from reid_torchmetrics.tasks import compare, evaluate_lists, index_recall

NUM_QUERIES, NUM_GALLERY = 10, 60


@pytest.fixture
def problem(tmp_path, monkeypatch):
    """Lists of an approximate search, and embeddings and labels of both sides in several layouts."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    arrays = {}
    for role, number in (("query", NUM_QUERIES), ("gallery", NUM_GALLERY)):
        arrays[role] = rng.normal(size=(number, 8)).astype(np.float32)
        labels = {"identities": rng.integers(0, 6, number), "cameras": rng.integers(1, 4, number)}
        arrays |= {f"{role}_{name}": values for name, values in labels.items()}
        np.savez(f"{role}.npz", embeddings=arrays[role], **labels)
        np.save(f"{role}.npy", arrays[role])
        names = [f"{role}_{row}.jpg" for row in range(number)]
        np.savez(f"{role}_named.npz", embeddings=arrays[role], names=names, **labels)
        with Path(f"{role}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["pid", "camid"])
            writer.writerows(zip(*labels.values(), strict=True))
    items = (arrays["query"][:, :4] @ arrays["gallery"][:, :4].T).argsort(axis=1)[:, ::-1][:, :20]
    np.save("I.npy", items)
    named = {f"query_{row}.jpg": [f"gallery_{item}.jpg" for item in items[row]] for row in range(NUM_QUERIES)}
    Path("I.json").write_text(json.dumps(named), encoding="utf-8")
    return items, arrays


def expected(items, arrays, protocol="market1501", k=10, similarity="cosine"):
    labels = {name: values for name, values in arrays.items() if "_" in name}
    exact = evaluate(arrays["query"], arrays["gallery"], **labels, protocol=protocol, similarity=similarity)
    lists = evaluate_lists(items, **labels, protocol=protocol)
    recall = index_recall(items, arrays["query"], arrays["gallery"], k=k, similarity=similarity)
    return recall, compare({"exact": exact, "I": lists})


def run(words):
    assert command.main(["lists", *words, "--protocol", "market1501", "--json", "out.json"]) == 0
    return json.loads(Path("out.json").read_text(encoding="utf-8"))


LAYOUTS = {
    "labels in the files": ["I.npy", "--exact", "query.npz", "gallery.npz"],
    "labels in tables": ["I.npy", "--exact", "query.npy", "gallery.npy", "--labels", "query.csv", "gallery.csv"],
    "names": ["I.json", "--exact", "query_named.npz", "gallery_named.npz"],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_numbers_are_those_of_the_functions(problem, layout, capsys):
    recall, comparison = expected(*problem)
    written = run(LAYOUTS[layout])
    assert written["index_recall"] == recall.to_dict()
    for name, row in written["measures"].items():
        assert row["mean_a"] == pytest.approx(comparison.differences[name].mean_a)
        assert row["mean_b"] == pytest.approx(comparison.differences[name].mean_b)
    assert written["cutoff"] == comparison.cutoff
    printed = capsys.readouterr().out
    assert f"{recall:.2%}" in printed
    assert "exact: cut after" in printed


def test_shards_and_options_of_exact_search_have_their_effect(problem):
    items, arrays = problem
    columns = {"embeddings": "gallery", "identities": "gallery_identities", "cameras": "gallery_cameras"}
    for part, rows in (("part_1", slice(25)), ("part_2", slice(25, None))):
        np.savez(f"{part}.npz", **{name: arrays[of][rows] for name, of in columns.items()})
    words = ["--exact", "query.npz", "part_1.npz", "part_2.npz", "--similarity", "euclidean", "--recall-k", "5"]
    written = run(["I.npy", *words])
    recall, comparison = expected(items, arrays, k=5, similarity="euclidean")
    assert written["index_recall"] == recall.to_dict()
    assert written["measures"]["map"]["mean_a"] == pytest.approx(comparison.differences["map"].mean_a)


@pytest.mark.usefixtures("problem")
def test_a_low_recall_fails_and_files_are_written():
    words = ["lists", "I.npy", "--exact", "query.npz", "gallery.npz", "--protocol", "market1501"]
    assert command.main([*words, "--fail-under", "index_recall_10=0.99"]) == 1
    outputs = ["--report", "report.html", "--save", "comparison.npz", "--pictures", "pictures"]
    assert command.main([*words, "--fail-under", "index_recall_10=0.01", *outputs]) == 0
    assert "exact" in Path("report.html").read_text(encoding="utf-8")
    assert Path("comparison.npz").exists()
    assert list(Path("pictures").iterdir())


REFUSED = [
    (["I.npy", "--exact", "query.npz"], "`--exact` must name the files of the queries and of the gallery"),
    (["I.npy", "truth.json", "--exact", "query.npz", "gallery.npz"], "`--exact` must come with labels"),
    (["I.npy", "--labels", "query.csv", "gallery.csv", "--recall-k", "5"], "`--recall-k` must come with `--exact`"),
    (["I.npy", "--labels", "query.csv", "gallery.csv", "--packed"], "`--packed` must come with `--exact`"),
    (
        ["I.npy", "--exact", "query.npz", "gallery.npz", "--ground-truth-form", "qrels"],
        "`--ground-truth-form` must come with a file of the right items; got `--exact`",
    ),
    (["I.npy", "--exact", "query.npz", "missing.npz"], "There is no file 'missing.npz'"),
    (["I.npy", "--exact", "query.npy", "gallery.npy"], "or be given by `--labels`; got none in the files of `--exact`"),
    (["I.json", "--exact", "query.npz", "gallery.npz"], "the table must name its rows, as the lists name them"),
    (["I.npy", "--exact", "query.npz", "gallery.npz", "--save", "gallery.npz"], "gallery.npz: must be another file"),
    (["I.npy", "--exact", "query.npz", "gallery.np[z]", "--save", "gallery.npz"], "gallery.npz: must be another file"),
    (["I.npy", "--exact", "gallery.npz", "gallery.npz"], "one list for each of 60 queries; got 10"),
]


@pytest.mark.usefixtures("problem")
@pytest.mark.parametrize(("words", "message"), REFUSED)
def test_files_and_options_that_do_not_fit_are_refused(words, message, capsys):
    assert command.main(["lists", *words]) in (1, 2)
    assert message in capsys.readouterr().err
