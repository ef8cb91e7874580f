"""Every field has a line in the page of the command, which runs on files in that form."""

import json
import pickle
import re
import shlex
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from reid_torchmetrics.command.pairs import PairNumbers
from reid_torchmetrics.functional.retrieval import PROTOCOLS, evaluate, evaluate_scores
from reid_torchmetrics.tasks import evaluate_lists

PAGE = Path(__file__).parents[2] / "docs" / "how_to" / "command.md"
DICE = np.random.default_rng(0)
NUM, NUM_QUERIES = 40, 12
X = DICE.normal(size=(NUM, 6)).astype(np.float32)
IDS, CAMERAS = np.arange(NUM) % 5, 1 + DICE.integers(0, 6, NUM)
CLOTHES, PLACES = (IDS + CAMERAS) % 3, 5e5 + 60 * DICE.random((NUM, 2))
SAME = np.arange(30) % 3 == 0
COSINES = np.linspace(-1, 1, 30)
RETRIEVED = (X[:NUM_QUERIES, :3] @ X[NUM_QUERIES:, :3].T).argsort(axis=1)[:, :9]
LISTS = [[int(item) for item in np.flatnonzero(IDS[NUM_QUERIES:] == of)] for of in IDS[:NUM_QUERIES]]


def lines():
    """The commands in the tables of the first section, without the name of the program."""
    section = PAGE.read_text(encoding="utf-8").partition("## Commands for your files")[2].partition("\n## ")[0]
    return re.findall(r"^\| .* \| `reid-torchmetrics (.*)` \|$", section, re.MULTILINE)


LINES = lines()
SIDES = {"query": slice(0, NUM_QUERIES), "gallery": slice(NUM_QUERIES, NUM)}


@pytest.fixture
def _field_files(tmp_path):
    """The files that the lines name."""
    for role, rows in SIDES.items():
        arrays = {"feat": X[rows], "pids": IDS[rows], "camids": CAMERAS[rows], "clothes_ids": CLOTHES[rows]}
        np.savez(tmp_path / f"{role}.npz", **arrays)
        (tmp_path / f"{role}_folder").mkdir()
        for name, values in arrays.items():
            np.save(tmp_path / f"{role}_folder" / f"{name}.npy", values)
        for name, values in {"": X, "_pids": IDS, "_camids": CAMERAS}.items():
            np.save(tmp_path / f"{role[0]}{name}.npy", values[rows])
    np.savez(tmp_path / "tracks.npz", **arrays, groups=10 * arrays["pids"] + arrays["camids"])
    for name, rows in {"queries": SIDES["query"], "database": SIDES["gallery"]}.items():
        np.save(tmp_path / f"{name}.npy", X[rows])
        np.save(tmp_path / f"{name}_positions.npy", PLACES[rows])
    parts = dict(zip(("q_pids", "g_pids", "q_camids", "g_camids"), sides(IDS, CAMERAS), strict=True))
    np.savez(tmp_path / "distances.npz", distmat=distances(), **parts)
    np.savez(tmp_path / "test.npz", features=X, labels=IDS)
    np.save(tmp_path / "images.npy", X[:8])
    np.save(tmp_path / "captions.npy", X)
    np.save(tmp_path / "image_of_caption.npy", np.arange(NUM) // 5)
    np.savez(tmp_path / "pairs.npz", scores=COSINES, same=SAME)
    np.save(tmp_path / "cosines.npy", COSINES.astype(np.float64))
    np.save(tmp_path / "I.npy", np.array([[4, 2, -1], [0, 1, 2]]))
    np.save(tmp_path / "retrieved.npy", RETRIEVED)
    names = {"imlist": [f"i{item}" for item in range(28)], "qimlist": [f"q{query}" for query in range(12)]}
    truth = [{"easy": easy, "hard": [], "junk": []} for easy in LISTS]
    (tmp_path / "gnd_roxford5k.pkl").write_bytes(pickle.dumps(names | {"gnd": truth}))
    box = {"bbox": [0, 0, 4, 4], "image_id": 1, "category_id": 5, "segmentation": [[0, 0, 4, 0, 4, 4, 0, 4]]}
    data_set = {"images": [{"id": 1, "height": 9, "width": 9}], "categories": [{"id": 5, "name": "cat"}]}
    data_set["annotations"] = [box | {"id": 1, "area": 16, "iscrowd": 0}]
    rows = zip([*IDS], [*CAMERAS], strict=True)
    rows_of_sides = {
        role: "pid,camid\n" + "".join(f"{IDS[row]},{CAMERAS[row]}\n" for row in range(NUM)[place])
        for role, place in SIDES.items()
    }
    np.save(tmp_path / "distmat.npy", distances())
    texts = {
        "q_labels.csv": rows_of_sides["query"],
        "g_labels.csv": rows_of_sides["gallery"],
        "labels.csv": "pid,camid\n" + "".join(f"{identity},{camera}\n" for identity, camera in rows),
        "gt.json": json.dumps(LISTS),
        "truth.json": "[[2], [0]]",
        "bm25.run": "q1 Q0 d2 1 0.9 x\nq1 Q0 d1 2 0.5 x\n",
        "robust.qrels": "q1 0 d1 2\n",
        "tower_1.txt": "a\nb\n",
        "veri_test.txt": "".join(f"{int(each)} a/{place}.wav b.wav\n" for place, each in enumerate(SAME)),
        "scores.txt": "".join(f"{each} a/{place}.wav b.wav\n" for place, each in enumerate(COSINES)),
        "pairs.txt": "1\t30\n" + "".join("al\t1\t2\n" if each else "al\t1\tbo\t2\n" for each in SAME),
        "instances_val2017.json": json.dumps(data_set),
        "detections.json": json.dumps([box | {"score": 0.5}]),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for folder in ("VOC2007/Annotations", "results", "coco128/labels/val", "runs/val/labels"):
        (tmp_path / folder).mkdir(parents=True)
    edges = "<xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax>"
    document = f"<annotation><object><name>cat</name><bndbox>{edges}</bndbox></object></annotation>"
    (tmp_path / "VOC2007/Annotations/a.xml").write_text(document, encoding="utf-8")
    (tmp_path / "results/comp4_det_val_cat.txt").write_text("a 0.9 1 1 9 9\n", encoding="utf-8")
    (tmp_path / "coco128/labels/val/a.txt").write_text("0 .5 .5 .2 .2\n", encoding="utf-8")
    (tmp_path / "runs/val/labels/a.txt").write_text("0 .5 .5 .2 .2 .9\n", encoding="utf-8")
    (tmp_path / "ground_truth_folder").mkdir()
    for name in ("good", "ok", "junk"):
        (tmp_path / "ground_truth_folder" / f"tower_1_{name}.txt").write_text(name[0], encoding="utf-8")


@pytest.fixture
def _layout_files(tmp_path):
    """The files that the lines name, as other projects write them."""
    query, gallery = sides(X)
    neighbors = np.tile(np.arange(2, dtype="<i4"), (NUM_QUERIES, 1))
    for name, values in {"query.fvecs": query, "base.fvecs": gallery, "groundtruth.ivecs": neighbors}.items():
        vectors = np.zeros(len(values), [("length", "<i4"), ("values", values.dtype, values.shape[1])])
        vectors["length"], vectors["values"] = values.shape[1], values
        (tmp_path / f"sift_{name}").write_bytes(vectors.tobytes())
    query_places, database_places = sides(PLACES)
    np.savez(tmp_path / "gt.npz", utmQ=query_places, utmDb=database_places)
    names = [f"@{east}@{north}@10@S@.jpg" for east, north in PLACES.tolist()]
    (tmp_path / "VeRi").mkdir()
    texts = {
        "queries.txt": "\n".join(names[:NUM_QUERIES]),
        "database.txt": "\n".join(names[NUM_QUERIES:]),
        "run.tsv": "1\t7\t1\n1\t9\t2\n",
        "test.tsv": "query-id\tcorpus-id\tscore\n1\t9\t1\n",
        "ranked.txt": "2 3 1 4\n4 1 2 3\n",
        "VeRi/gt_index.txt": "1\n4\n",
        "VeRi/jk_index.txt": "2\n1\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")


@pytest.fixture
def _hdf5_file(tmp_path):
    """A file of ann-benchmarks, where h5py is installed."""
    with suppress(ModuleNotFoundError), import_module("h5py").File(tmp_path / "sift.hdf5", "w") as file:
        file["test"], file["train"] = sides(X)
        file["neighbors"] = np.tile(np.arange(2), (NUM_QUERIES, 1))


def sides(*columns):
    return [values[rows] for values in columns for rows in SIDES.values()]


def distances():
    query, gallery = sides(X.astype(np.float64))
    return ((query[:, None] - gallery) ** 2).sum(-1)


def sides_of(**labels):
    return {f"{role}_{name}": values[rows] for name, values in labels.items() for role, rows in SIDES.items()}


def by_labels(protocol, **labels):
    return evaluate(*sides(X), *sides(IDS), **sides_of(**labels), protocol=protocol).means


def captions(query, gallery, numbers):
    return evaluate(query, gallery, *numbers, protocol="flickr30k").means


IMAGES, OF_CAPTIONS = np.arange(8), np.arange(NUM) // 5


def pair_values(**options):
    return {name: number.value for name, number in PairNumbers(COSINES, SAME, **options).numbers.items()}


EXPECTED = {
    "evaluate query.npz gallery.npz --protocol market1501": lambda: by_labels("market1501", cameras=CAMERAS),
    "evaluate query_folder": lambda: by_labels("msmt17", cameras=CAMERAS),
    "evaluate distances.npz": lambda: evaluate_scores(-distances(), *sides(IDS, CAMERAS), protocol="veri776").means,
    "evaluate --distances distmat.npy": lambda: evaluate_scores(-distances(), *sides(IDS, CAMERAS)).means,
    "evaluate q.npy g.npy --labels": lambda: by_labels("market1501", cameras=CAMERAS),
    "evaluate q.npy g.npy --protocol": lambda: by_labels("market1501", cameras=CAMERAS),
    "evaluate query.npz gallery.npz --protocol ltcc_cc": lambda: by_labels("ltcc_cc", cameras=CAMERAS, clothes=CLOTHES),
    "evaluate images.npy": lambda: captions(X[:8], X, (IMAGES, OF_CAPTIONS)),
    "evaluate captions.npy": lambda: captions(X, X[:8], (OF_CAPTIONS, IMAGES)),
    "evaluate queries.npy database.npy --protocol pitts30k --labels": lambda: (
        evaluate(
            *sides(X), query_positions=PLACES[:NUM_QUERIES], gallery_positions=PLACES[NUM_QUERIES:], protocol="pitts30k"
        ).means
    ),
    "evaluate queries.npy database.npy --protocol pitts30k --ground": lambda: (
        evaluate(*sides(X), ground_truth=[{"ok": each} for each in LISTS], protocol="pitts30k").means
    ),
    "evaluate test.npz": lambda: evaluate(X, query_identities=IDS, protocol="cub200").means,
    "evaluate sift": lambda: {"recall_100": 1.0},
    "lists retrieved": lambda: (
        evaluate_lists(RETRIEVED, **sides_of(identities=IDS, cameras=CAMERAS), protocol="market1501").means
    ),
    "lists run": lambda: {"mrr_10": 0.5},
    "lists ranked": lambda: {"map": 0.75},
    "lists bm25": lambda: {"map": 0.5, "ndcg_10": 1 / np.log2(3)},
    "lists tower": lambda: {"map": 0.0},
    "pairs pairs.npz": pair_values,
    "pairs veri_test": lambda: pair_values(reports=("eer_voxceleb", "min_dcf")),
    "pairs pairs.txt": lambda: pair_values(reports=("accuracy", "auc")),
}
"""what a line that begins so must give"""


@pytest.mark.usefixtures("_field_files", "_layout_files", "_hdf5_file")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("line", LINES)
def test_the_line_of_a_field_gives_its_numbers(command, line):
    if "hdf5" in line:
        pytest.importorskip("h5py")
    said = command(*shlex.split(line), "--json", "-")
    assert said.status == 0, said.err
    is_diagnosed = line.startswith("diagnose")
    assert not is_diagnosed or said.out.startswith(("Diagnosis: ", "Expected "))
    # Numbers that are diagnosed are on the other stream, behind what is said of the files.
    found = json.loads(said.err[said.err.index("\n{") :] if is_diagnosed else said.out)
    if "measures" in found:
        found = {name: each.get("value", each.get("mean_b")) for name, each in found["measures"].items()}
        assert all(0 <= value <= 1 for value in found.values() if value is not None)
    for words, expected in EXPECTED.items():
        if line.startswith(words):
            assert found == pytest.approx(expected(), abs=1e-12)


def test_every_number_that_is_expected_is_of_a_line():
    assert all(any(line.startswith(words) for line in LINES) for words in EXPECTED)


def test_every_kind_of_protocol_has_a_line():
    """A kind is what a protocol needs: labels, lists, leave-one-out, cameras that are searched, drawn galleries."""

    def kind(name):
        protocol = PROTOCOLS[name]
        needs = {*protocol.needed_labels} - {"cameras"}
        return frozenset(needs), protocol.leave_one_out, protocol.search_cameras is not None

    shown = {word for line in LINES for word in line.split() if word in PROTOCOLS} | {"trec"}
    without = {"vehicleid", "tokyo247", "cuhk_sysu", "prw"}  # drawn from the queries; both of two kinds; person search
    assert {kind(name) for name in PROTOCOLS.keys() - without} <= {kind(name) for name in shown}


def test_lists_of_pairs_are_read_with_scores_in_every_place(command, tmp_path):
    forms = {
        "voxceleb": ("1 a b", "0 a c", "1 d e"),
        "kaldi": ("a b target", "a c nontarget", "d e target"),
        "kinship": ("a b 1", "a c 0", "d e 1"),
        "lfw": ("al 1 4", "al 1 bo 2", "bo 2 3"),
    }
    for name, rows in forms.items():
        (tmp_path / f"{name}.txt").write_text("\n".join(["2 3"] * (name == "lfw") + [*rows]), encoding="utf-8")
        pairs = [re.sub("^[01] | [01]$| (non)?target$", "", row) for row in rows] if name != "lfw" else rows
        for form in ("{score}", "{score} {pair}", "{pair}\t{score}"):
            scores = [form.format(score=score, pair=pair) for score, pair in zip((1, 2, 3), pairs, strict=True)]
            (tmp_path / "scores.txt").write_text("\n".join(scores), encoding="utf-8")
            said = command("pairs", f"{name}.txt", "scores.txt", "--reports", "auc", "--json", "-")
            assert said.status == 0, said.err
            assert json.loads(said.out)["measures"]["auc"]["value"] == 0.5
            assert json.loads(said.out)["counts"] == {"same": 2, "other": 1}
    with (tmp_path / "SCORES.NPY").open("wb") as file:
        np.save(file, [1.0, 2.0, 3.0])
    said = command("pairs", "kaldi.txt", "SCORES.NPY", "--reports", "auc", "--json", "-")
    assert json.loads(said.out)["measures"]["auc"]["value"] == 0.5
