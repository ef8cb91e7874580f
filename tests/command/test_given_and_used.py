"""What is given is used, or the exit status is 1: columns and options, in every kind of input."""

import json
import os

import numpy as np
import pytest

from reid_torchmetrics import ReIDMetrics
from reid_torchmetrics.functional.retrieval import PROTOCOLS

NUM_QUERIES, NUM_ALL = 7, 30
DICE = np.random.default_rng(3)
IS_QUERY = np.arange(NUM_ALL) < NUM_QUERIES
TWINS = [NUM_ALL - 2, NUM_ALL - 1]
"""two items that are one sample"""


MEASURES = {"map", "minp", "rank_1", "rank_5", "rank_10"}


def drawn():
    identities = DICE.integers(0, 4, NUM_ALL)
    labels = {
        "identities": identities,
        "cameras": DICE.integers(0, 2, NUM_ALL),
        "sequences": DICE.integers(0, 5, NUM_ALL),
        "clothes": DICE.integers(0, 2, NUM_ALL),
        "positions": 5e6 + 30 * DICE.random((NUM_ALL, 2)),
        "groups": 10 * identities,
        "index": DICE.permutation(NUM_ALL),
    }
    embeddings = (np.eye(4, 8)[identities] + DICE.standard_normal((NUM_ALL, 8))).astype(np.float32)
    for values in (embeddings, *labels.values()):
        values[TWINS[1]] = values[TWINS[0]]
    return embeddings, labels


EMBEDDINGS, LABELS = drawn()
LABELS["groups"][LABELS["cameras"] == 1] += 1  # members of a group agree in their labels
OPTIONS = {
    "cameras": [],
    "sequences": [],
    "clothes": ["--clothes", "drop_same"],
    "positions": ["--protocol", "pitts30k"],
    "groups": ["--protocol", "veri776_image_to_track"],
    "index": [],
}
"""by column, with what it matters"""
PLACE = np.random.default_rng(0).permutation(NUM_ALL)
SHUFFLED = np.empty(NUM_ALL, dtype=np.int64)
SHUFFLED[np.sort(PLACE[:NUM_QUERIES])], SHUFFLED[np.sort(PLACE[NUM_QUERIES:])] = (
    IS_QUERY.nonzero()[0],
    (~IS_QUERY).nonzero()[0],
)
"""both sides mixed, each in its order"""


def side(role, labels, rows=None):
    rows = (IS_QUERY if role == "query" else ~IS_QUERY) if rows is None else rows
    return {name: values[rows] for name, values in {"feat": EMBEDDINGS, **labels}.items()}


def table(labels):
    columns = {name: values for name, values in labels.items() if name != "positions"}
    if "positions" in labels:
        columns |= dict(zip(("easting", "northing"), labels["positions"].T, strict=True))
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    return "\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)])


def two_files(folder, labels):
    for role in ("query", "gallery"):
        np.savez(folder / f"{role}.npz", **side(role, labels))
    return ["query.npz", "gallery.npz"]


def arrays_of_both(folder, labels):
    arrays = {f"{role}_{name}": each for role in ("query", "gallery") for name, each in side(role, labels).items()}
    np.savez(folder / "both.npz", **arrays)
    return ["both.npz"]


def array_of_roles(folder, labels):
    np.savez(folder / "all.npz", **side("", labels, SHUFFLED), is_query=IS_QUERY[SHUFFLED])
    return ["all.npz"]


def column_of_roles(folder, labels):
    np.save(folder / "all.npy", EMBEDDINGS[SHUFFLED])
    split = np.where(IS_QUERY, "query", "gallery")
    columns = {name: values[SHUFFLED] for name, values in {**labels, "split": split}.items()}
    (folder / "labels.csv").write_text(table(columns), encoding="utf-8")
    return ["all.npy", "--labels", "labels.csv"]


def shards_with_roles(folder, labels):
    words = column_of_roles(folder, labels)
    (folder / "shards").mkdir(exist_ok=True)
    for number, rows in enumerate(np.array_split(EMBEDDINGS[SHUFFLED], 2)):
        np.save(folder / "shards" / f"{number}.npy", rows)
    return ["shards", *words[1:]]


def one_table(folder, labels):
    for role, rows in (("query", IS_QUERY), ("gallery", ~IS_QUERY)):
        np.save(folder / f"{role}.npy", EMBEDDINGS[rows])
    (folder / "labels.csv").write_text(table(labels), encoding="utf-8")
    return ["query.npy", "gallery.npy", "--labels", "labels.csv"]


def two_tables(folder, labels):
    words = one_table(folder, labels)
    for role, rows in (("query", IS_QUERY), ("gallery", ~IS_QUERY)):
        of_side = {name: values[rows] for name, values in labels.items()}
        (folder / f"{role}.csv").write_text(table(of_side), encoding="utf-8")
    return [*words[:2], "--labels", "query.csv", "gallery.csv"]


def two_folders(folder, labels):
    for role in ("query", "gallery"):
        (folder / role).mkdir(exist_ok=True)
        for name, values in side(role, labels).items():
            np.save(folder / role / f"{name}.npy", values)
    return ["query", "gallery"]


def arrays_of_labels(folder, labels):
    words = two_folders(folder, labels)
    files = [f"{name}={role}/{name}.npy" for name in labels for role in words]
    return ["query/feat.npy", "gallery/feat.npy", "--labels", *files]


INPUTS = [
    two_files,
    two_folders,
    arrays_of_both,
    array_of_roles,
    column_of_roles,
    shards_with_roles,
    one_table,
    two_tables,
]


def with_columns(*names):
    return {name: LABELS[name] for name in ("identities", *names)}


def values_of(said):
    assert said.status == 0, said.err
    return {name: each["value"] for name, each in json.loads(said.out)["measures"].items()}


def expected(labels, **options):
    metric = ReIDMetrics(**options)
    for role, is_query in (("query", True), ("gallery", False)):
        of_side = side(role, labels)
        metric.update(of_side.pop("feat"), is_query=is_query, **of_side)
    return metric.results().means


@pytest.mark.parametrize("column", OPTIONS)
@pytest.mark.parametrize("make", [*INPUTS, arrays_of_labels])
def test_every_column_counts_in_every_kind_of_input(command, tmp_path, make, column):
    labels = with_columns(*{column, "cameras"} if column == "groups" else {column})
    words = OPTIONS[column]
    options = dict(zip([word.removeprefix("--") for word in words[::2]], words[1::2], strict=True))
    numbers = values_of(command("evaluate", *make(tmp_path, labels), *words, "--json", "-"))
    assert numbers == expected(labels, **options)
    assert numbers.keys() != MEASURES or numbers != expected(with_columns())


def test_numbers_of_samples_are_refused_beside_lists_of_rows(command, tmp_path):
    (tmp_path / "lists.json").write_text(json.dumps([[0]] * NUM_QUERIES), encoding="utf-8")
    said = command("evaluate", *two_files(tmp_path, with_columns("index")), "--ground-truth", "lists.json")
    assert "query.npz: `index` must come without `--ground-truth`, whose lists number rows; got both." in said.err
    assert said.status == 1


def test_roles_of_one_side_beside_rows_of_none_are_refused(command, tmp_path):
    np.save(tmp_path / "all.npy", EMBEDDINGS)
    flags = {"is_query": IS_QUERY, "is_gallery": np.zeros(NUM_ALL, dtype=bool)}
    (tmp_path / "labels.csv").write_text(table(with_columns() | flags), encoding="utf-8")
    said = command("evaluate", "all.npy", "--labels", "labels.csv")
    assert "`roles` must tell queries and gallery apart in all.npy; got queries." in said.err
    assert said.status == 1


@pytest.mark.parametrize("make", [make for make in INPUTS if make is not arrays_of_both])
def test_names_of_every_column_are_used(command, tmp_path, make):
    labels = with_columns("cameras")
    words = make(tmp_path, {"zoo": labels["identities"], "zap": labels["cameras"]})
    names = ["--names", "identities=zoo", "cameras=zap"]
    assert values_of(command("evaluate", *words, *names, "--json", "-")) == expected(labels)


def test_a_name_is_used_on_both_sides(command, tmp_path):
    (tmp_path / "labels.csv").write_text(table({"camid": LABELS["cameras"]}), encoding="utf-8")
    query, gallery = side("query", with_columns()), side("gallery", with_columns())
    np.savez(tmp_path / "q.npz", zoo=query["identities"], feat=query["feat"])
    np.savez(tmp_path / "g.npz", pids=gallery["identities"], feat=gallery["feat"])
    said = command("evaluate", "q.npz", "g.npz", "--labels", "labels.csv", "--names", "identities=zoo")
    assert said.status == 1
    assert "`--names` must name arrays or columns in the files, not files; got identities=zoo." in said.err


@pytest.mark.parametrize("make", [two_files, array_of_roles])
@pytest.mark.parametrize("column", ["identities", "role"])
def test_labels_that_come_twice_are_refused(command, tmp_path, make, column):
    values = LABELS["identities"] if column == "identities" else np.where(IS_QUERY, "query", "gallery")
    (tmp_path / "labels.csv").write_text(table({column: values, "camid": LABELS["cameras"]}), encoding="utf-8")
    said = command("evaluate", *make(tmp_path, with_columns()), "--labels", "labels.csv")
    if make is two_files and column == "role":
        assert said.status == 0  # which these files do not have
    else:
        name = column.replace("role", "roles")
        assert f"labels.csv: `{name}` must come once; got it from " in said.err
        assert said.status == 1


@pytest.mark.parametrize("make", INPUTS)
def test_a_pattern_of_file_names_without_them_is_refused(command, tmp_path, make):
    said = command("evaluate", *make(tmp_path, with_columns("cameras")), "--file-names", "market1501")
    assert said.status == 1
    assert "`--file-names` must come with names of files; got 'market1501' and no names." in said.err


@pytest.mark.parametrize(
    ("words", "form"),
    [
        ([], "{:04d}_c{}s1_000151_01.jpg"),
        (["--file-names", "msmt17"], "{:04d}_000_{:02d}_0303morning_0015_0.jpg"),
        (["--file-names", r"(?P<identity>\d+)-(?P<camera>\d+)"], "{}-{}"),
    ],
)
@pytest.mark.slow
def test_file_names_become_labels_where_there_are_no_identities(command, tmp_path, words, form):
    labels = with_columns("cameras")
    paths = [form.format(*each) for each in zip(*labels.values(), strict=True)]
    files = one_table(tmp_path, labels)
    (tmp_path / "labels.csv").write_text(table({"path": np.array(paths)}), encoding="utf-8")
    assert values_of(command("evaluate", *files, *words, "--json", "-")) == expected(labels)


def test_file_names_beside_identities_are_said_not_to_count(command, tmp_path):
    words = one_table(tmp_path, with_columns("cameras"))
    paths = np.array([f"{number:04d}_c1s1_0.jpg" for number in range(NUM_ALL)])
    (tmp_path / "labels.csv").write_text(table(with_columns("cameras") | {"path": paths}), encoding="utf-8")
    said = command("evaluate", *words)
    assert "no labels from file names, as there are identities" in said.err
    assert command("evaluate", *words, "--names", "names=path").out == said.out


ANIMALS = np.array([f"Luna_{identity}" for identity in LABELS["identities"]])
PHOTOS = np.array([f"images/{number}.jpg" for number in range(NUM_ALL)])


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("path name", []),
        ("image_path name", []),
        ("name filename", []),
        ("path name", ["--names", "identities=name"]),
        ("path name", ["--names", "names=path"]),
        ("path name", ["--names", "names=path", "identities=name"]),
        ("photo name", ["--names", "identities=name"]),
        ("photo name", ["--names", "names=photo"]),
        ("name label", ["--names", "identities=name", "names=label"]),
        ("y x", ["--names", "names=y", "identities=x"]),
        ("cameras split", ["--names", "names=cameras", "identities=split"]),
    ],
)
def test_a_column_with_a_meaning_is_nothing_else(command, tmp_path, columns, words):
    files = one_table(tmp_path, with_columns())
    photos, animals = columns.split() if "name" not in columns.split()[0] else reversed(columns.split())
    (tmp_path / "labels.csv").write_text(table({photos: PHOTOS, animals: ANIMALS}), encoding="utf-8")
    if columns == "name label":
        (tmp_path / "labels.csv").write_text(table({"label": PHOTOS, "name": ANIMALS}), encoding="utf-8")
    assert values_of(command("evaluate", *files, *words, "--json", "-")) == expected(with_columns())


def test_names_without_a_pattern_are_told_where_identities_are_missing(command, tmp_path):
    np.savez(tmp_path / "all.npz", feat=EMBEDDINGS, paths=PHOTOS)
    said = command("evaluate", "all.npz")
    rule = "the file names of the query must have the pattern 'market1501' in each name; got 'images/0.jpg'. Say by"
    assert f"{rule} `--file-names` how they hold labels, or by `--names identities=COLUMN` what does." in said.err
    np.savez(tmp_path / "all.npz", feat=EMBEDDINGS, paths=PHOTOS, positions=np.arange(2.0 * NUM_ALL).reshape(-1, 2))
    assert command("evaluate", "all.npz", "--protocol", "pitts30k").status == 0
    np.savez(tmp_path / "all.npz", feat=EMBEDDINGS, age=np.arange(NUM_ALL) / 2)
    said = command("evaluate", "all.npz", "--names", "names=age")
    assert "all.npz: `age` must hold a string or an integer for each of " in said.err


@pytest.mark.parametrize("make", INPUTS)
@pytest.mark.slow
def test_a_rule_about_cameras_that_was_asked_for_needs_cameras(command, tmp_path, make):
    words = make(tmp_path, with_columns())
    said = command("evaluate", *words)
    assert said.status == 0  # nobody asked for the rule
    assert (
        "identities without cameras: `--same-camera same_identity` of market1501 drops nothing; `--labels" in said.err
    )
    for asked in (["--protocol", "market1501"], ["--same-camera", "all"], ["--camera-map", '{"1": 2}']):
        said = command("evaluate", *words, *asked)
        assert said.status == 1, asked
        assert "cameras must be given for " in said.err.splitlines()[-1]
        assert ", as by `--labels cameras=FILE`, or `--same-camera keep`; got none in " in said.err
    said = command("evaluate", *words, "--protocol", "market1501", "--same-camera", "keep", "--json", "-")
    assert values_of(said) == expected(with_columns(), same_camera="keep")


@pytest.mark.parametrize("name", [name for name, protocol in PROTOCOLS.items() if not protocol.needs_lists])
def test_protocols_by_name_ask_for_what_their_rules_need(command, tmp_path, name):
    protocol = PROTOCOLS[name]
    rules = (protocol.same_camera, protocol.cmc_same_camera or "keep")
    is_lacking = rules != ("keep", "keep") or protocol.needed_labels.keys() - {"identities"}
    said = command("evaluate", *two_files(tmp_path, with_columns()), "--protocol", name)
    assert said.status == bool(is_lacking or protocol.leave_one_out or protocol.search_cameras), said.err


def test_the_first_of_several_missing_labels_is_named_in_the_order_of_the_rules(command, tmp_path):
    said = command("evaluate", *two_files(tmp_path, with_columns()), "--protocol", "tokyo247")
    assert said.err.splitlines()[-1].startswith("reid-torchmetrics: positions must be given for `--radius` 25.0")


RUN, QRELS = "q Q0 a 1 0.5 x\n", "q 0 a 1\n"
DATA_SET = {
    "images": [{"id": 1, "height": 9, "width": 9}],
    "categories": [{"id": 5, "name": "cat"}],
    "annotations": [{"id": 1, "image_id": 1, "category_id": 5, "bbox": [0, 0, 4, 4], "area": 16, "iscrowd": 0}],
}
RESULT = {"image_id": 1, "category_id": 5, "bbox": [0, 0, 4, 4], "score": 0.5}


def files_to_read(folder):
    """The words of each subcommand, and the files that it reads."""
    texts = {"run.txt": RUN, "qrels.txt": QRELS, "data.json": json.dumps(DATA_SET), "dt_bbox": json.dumps([RESULT])}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    words = one_table(folder, with_columns("cameras"))
    return {
        "evaluate": (words, ["query.npy", "gallery.npy", "labels.csv"]),
        "lists": (["run.txt", "qrels.txt"], ["run.txt", "qrels.txt"]),
        "detect": (["data.json", "dt_bbox"], ["data.json", "dt_bbox"]),
        "compare": (["a.npz", "b.npz"], ["a.npz", "b.npz"]),
    }


@pytest.mark.parametrize("link", [None, os.symlink, os.link])
@pytest.mark.parametrize("name", ["evaluate", "lists", "detect", "compare"])
@pytest.mark.slow
def test_an_output_that_is_an_input_is_refused_and_nothing_changes(command, tmp_path, name, link):
    words, inputs = files_to_read(tmp_path)[name]
    for each in ("a.npz", "b.npz"):
        assert command("lists", "run.txt", "qrels.txt", "--save", each).status == 0
    before = {each: (tmp_path / each).read_bytes() for each in inputs}
    for number, each in enumerate(inputs):
        target = each if link is None else f"link{number}"
        if link is not None:
            link(tmp_path / each, tmp_path / target)
        for option in ("--json", "--save", "--report"):
            said = command(name, *words, option, target)
            assert said.status == 1, option
            assert said.err.splitlines()[-1].startswith(f"reid-torchmetrics: {target}: must be another file than ")
    assert {each: (tmp_path / each).read_bytes() for each in inputs} == before


def test_outputs_of_one_name_are_refused(command, tmp_path):
    files_to_read(tmp_path)
    said = command("lists", "run.txt", "qrels.txt", "--json", "out", "--save", "out")
    assert "out: must be another file than out to write to; got the same." in said.err
    kinds = ["--iou-type", "bbox", "segm"]
    said = command("detect", "data.json", "dt_bbox", *kinds, "--save", "dt")  # it would write dt_bbox and dt_segm
    assert "dt_bbox: must be another file than dt_bbox to write to; got the same." in said.err
    (tmp_path / "options.yaml").write_text("save: options.yaml\n", encoding="utf-8")
    said = command("lists", "run.txt", "qrels.txt", "--config", "options.yaml")
    assert "must be another file than " in said.err
    assert said.status == 1
