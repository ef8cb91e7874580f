"""`lists --labels`: lists of an index with labels in files, by the numbers of `evaluate_lists`."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from reid_torchmetrics import command
from reid_torchmetrics.tasks import evaluate_lists

NUM_QUERIES, NUM_GALLERY = 6, 30


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Lists, and labels of both sides as tables and as arrays, in the working directory."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    order = np.stack([rng.permutation(NUM_GALLERY)[:12] for _ in range(NUM_QUERIES)])
    labels = {}
    for side, number in (("query", NUM_QUERIES), ("gallery", NUM_GALLERY)):
        identities, cameras = rng.integers(0, 4, number), rng.integers(1, 4, number)
        labels |= {f"{side}_identities": identities, f"{side}_cameras": cameras}
        np.save(f"{side}_pids.npy", identities)
        np.save(f"{side}_camids.npy", cameras)
        with Path(f"{side}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["name", "pid", "camid"])
            writer.writerows([f"{side}_{row}.jpg", identities[row], cameras[row]] for row in range(number))
    np.save("I.npy", order)
    names = {f"query_{row}.jpg": [f"gallery_{item}.jpg" for item in order[row]] for row in range(NUM_QUERIES)}
    Path("I.json").write_text(json.dumps(names), encoding="utf-8")
    return order, labels


def numbers(words):
    assert command.main(["lists", *words, "--json", "out.json"]) == 0
    measures = json.loads(Path("out.json").read_text(encoding="utf-8"))["measures"]
    return {name: row["value"] for name, row in measures.items()}


@pytest.mark.parametrize("lists", ["I.npy", "I.json"])
def test_tables_of_labels_judge_lists(files, lists):
    order, labels = files
    expected = evaluate_lists(order, **labels, protocol="market1501").means
    assert numbers([lists, "--labels", "query.csv", "gallery.csv", "--protocol", "market1501"]) == expected


REFUSED = [
    (["I.npy", "--labels", "query.csv"], "`--labels` must be a file of the queries and one of the gallery; got 1."),
    (["I.json", "--labels", "query_pids.npy", "gallery_pids.npy"], "the table must name its rows, as the lists name"),
    (
        ["I.npy", "--labels", "query_pids.npy", "gallery_pids.npy", "--same-camera", "all"],
        "`cameras` of the query and `cameras` of the gallery must be given for `--same-camera` 'all'; got none.",
    ),
    (
        ["I.npy", "--labels", "query.csv", "gallery.csv", "--clothes", "drop_same"],
        "`clothes` of the query and `clothes` of the gallery must be given for `--clothes` 'drop_same'; got none.",
    ),
]


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("words", "message"), REFUSED)
def test_labels_that_do_not_fit_are_refused(words, message, capsys):
    assert command.main(["lists", *words]) in (1, 2)
    assert message in capsys.readouterr().err


TABLES = ["I.npy", "--labels", "query.csv", "gallery.csv"]
IGNORED = [
    ([*TABLES, "--names", "clothes=outfit"], "`--names` must name columns in the tables of `--labels`; got clothes="),
    (["I.npy", "truth.json", "--names", "identities=pid"], "`--names` must name columns in the tables of `--labels`"),
    (
        [*TABLES, "--file-names", "msmt17"],
        "the file names of the query must have the pattern 'msmt17' in each name; got 'query_0.jpg'.",
    ),
]


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("words", "message"), IGNORED)
def test_names_that_no_table_has_are_refused(words, message, capsys):
    Path("truth.json").write_text("[[0]]", encoding="utf-8")
    assert command.main(["lists", *words]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("files")
def test_names_of_columns_that_a_table_has_are_used():
    expected = numbers(TABLES)
    Path("query.csv").write_text(Path("query.csv").read_text(encoding="utf-8").replace("pid", "who"), encoding="utf-8")
    assert numbers([*TABLES, "--names", "identities=who"]) == expected


COLUMNS = [
    ("index", [3, 4, 5, 0, 1, 2], "query.npz: `index` must be left out, as lists hold positions of rows, or names"),
    ("roles", ["query", "gallery"] * 3, "query.npz: `roles` must be those of the query; got some of the gallery."),
]


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("column", "values", "message"), COLUMNS)
def test_a_column_that_lists_cannot_follow_is_refused(column, values, message, capsys):
    np.savez("query.npz", identities=[0] * NUM_QUERIES, **{column: values})
    assert command.main(["lists", "I.npy", "--labels", "query.npz", "gallery_pids.npy"]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("files")
def test_a_protocol_of_leave_one_out_is_refused_with_the_option_that_turns_it_off(capsys):
    words = ["lists", "I.npy", "--labels", "query_pids.npy", "gallery_pids.npy", "--protocol", "cub200"]
    assert command.main(words) == 1
    assert "or `--no-leave-one-out` be given, under protocol 'cub200'" in capsys.readouterr().err
    assert command.main([*words, "--no-leave-one-out"]) == 0


@pytest.mark.usefixtures("files")
def test_leave_one_out_is_refused_beside_the_right_items(capsys):
    Path("truth.json").write_text(json.dumps([[0]] * NUM_QUERIES), encoding="utf-8")
    assert command.main(["lists", "I.npy", "truth.json", "--leave-one-out"]) == 1
    assert (
        "`--leave-one-out` must come with labels and the rows of queries in the gallery; got `positives`."
        in capsys.readouterr().err
    )


@pytest.mark.filterwarnings("ignore")
def test_positives_by_the_numbers_of_queries_are_in_their_order(tmp_path, capsys):
    np.save(tmp_path / "I.npy", [[0, 1], [1, 0]])
    (tmp_path / "truth.json").write_text('{"0": [0], "1": [0]}', encoding="utf-8")
    assert command.main(["lists", str(tmp_path / "I.npy"), str(tmp_path / "truth.json"), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["measures"]["map"]["value"] == pytest.approx(0.75)  # of 1 and 1/2


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("words", "file"),
    [
        (["I.json", "--labels", "query.csv", "gallery.csv"], "gallery.csv"),
        (["I.json", "--labels", "query.csv", "galler[y].csv"], "gallery.csv"),
        (["I.npy", "--labels", "identities=query_pids.npy", "identities=gallery_pids.npy"], "query_pids.npy"),
    ],
)
def test_files_of_labels_are_not_written_over(words, file, capsys):
    before = Path(file).read_bytes()
    assert command.main(["lists", *words, "--json", file]) == 1
    assert f"{file}: must be another file than" in capsys.readouterr().err
    assert Path(file).read_bytes() == before
