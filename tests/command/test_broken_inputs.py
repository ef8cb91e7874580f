"""A broken input is one line that names it, exit status 1, and nothing written."""

import json

import numpy as np
import pytest

OUT = [
    "--json",
    "out/numbers.json",
    "--save",
    "out/results.npz",
    "--report",
    "out/report.html",
    "--pictures",
    "out/png",
]
ROWS, LABELS = np.eye(6, 4, dtype=np.float32), np.arange(6)


def nan_rows():
    rows = ROWS.copy()
    rows[3, 1] = np.nan
    return rows


DATA_SET = {
    "images": [{"id": 1, "height": 9, "width": 9}, {"id": 2}],
    "categories": [{"id": 5, "name": "cat"}],
    "annotations": [{"id": 1, "image_id": 1, "category_id": 5, "bbox": [0, 0, 4, 4], "area": 16, "iscrowd": 0}],
}
RESULT = {"image_id": 1, "category_id": 5, "bbox": [0, 0, 4, 4], "score": 0.5}
LVIS = DATA_SET | {"images": [{"id": 1, "neg_category_ids": [5]}]}


@pytest.fixture
def broken(tmp_path):
    """Files of which something is wrong, each by its name; and whole ones."""
    arrays = {
        "g": {"feat": ROWS, "pids": LABELS},
        "five_labels": {"feat": ROWS, "pids": LABELS[:5]},
        "nan_rows": {"feat": nan_rows(), "pids": LABELS},
        "wide": {"feat": np.eye(6, 5, dtype=np.float32), "pids": LABELS},
        "no_labels": {"feat": ROWS},
        "d": {"distmat": ROWS, "q_pids": LABELS, "g_pids": LABELS[:4]},
        "nan_distances": {"distmat": nan_rows(), "q_pids": LABELS, "g_pids": LABELS[:4]},
        "cosines": {"scores": LABELS, "same": LABELS % 2},
        "one_kind": {"scores": LABELS, "same": LABELS * 0 + 1},
        "not_flags": {"scores": LABELS, "same": LABELS},
        "five_flags": {"scores": LABELS, "same": LABELS[:5] % 2},
        "empty": {"feat": ROWS[:0], "pids": LABELS[:0]},
    }
    for name, each in arrays.items():
        np.savez(tmp_path / f"{name}.npz", **each)
    np.save(tmp_path / "objects.npy", np.array([{}, {}], dtype=object))
    np.save(tmp_path / "rows.npy", ROWS)
    np.save(tmp_path / "reals.npy", ROWS / 2)
    np.save(tmp_path / "two.npy", ROWS[:2])
    np.save(tmp_path / "ids.npy", LABELS)
    np.save(tmp_path / "lists.npy", np.array([[0, 1]]))
    texts = {
        "features.txt": "1 a b\nname 1 2\n",
        "trials.txt": "1 a b\n0 a c\n",
        "three.txt": "1\n2\n3\n",
        "one.txt": "1\n",
        "swapped.txt": "0.5 a c\n0.1 a b\n",
        "short.csv": "pid\n1\n2\n",
        "paths.csv": "path\n" + 12 * "door/1.jpg\n",
        "nothing.csv": "",
        "bad.run": "q1 Q0 d1 1 0.9 x\nq1 d2 0.5\n",
        "good.run": "q1 Q0 d1 1 0.9 x\n",
        "good.qrels": "q2 0 d1 1\n",
        "tower_9.txt": "a\nb\n",
        "bad.json": "[{",
        "data_set.json": json.dumps(DATA_SET),
        "lvis.json": json.dumps(LVIS),
        "results.json": json.dumps([RESULT]),
        "unknown_image.json": json.dumps([RESULT | {"image_id": 3}]),
        "bad_box.json": json.dumps([RESULT | {"bbox": [0, 0, 4]}]),
        "options.yaml": "rule: [",
        "a_file": "",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "no_shards").mkdir()


BROKEN = [
    # words, beginning of the line, status
    ("evaluate g.npz no_shards", "There is no file of"),
    ("evaluate g.npz five_labels.npz", "five_labels.npz: "),
    ("evaluate g.npz g.npz wide.npz", "wide.npz: a shard must have the form of g.npz"),
    ("evaluate g.npz g.npz g.npz", "each of `query` and `gallery` must name files, none of them twice"),
    ("evaluate g.npz wide.npz", "wide.npz: embeddings must be as wide as those of g.npz; got 5 and 4."),
    ("evaluate g.npz nan_rows.npz", "nan_rows.npz: embeddings must be finite; got 1 rows that are not, first 3."),
    ("evaluate nan_rows.npz g.npz --max-rank 3", "nan_rows.npz: embeddings must be finite"),
    ("evaluate no_labels.npz no_labels.npz", "identities must be given unless relevance is by `--radius`"),
    ("evaluate g.npz no_labels.npz", "`identities` of the query and `identities` of the gallery must be given unless"),
    ("evaluate g.npz g.npz --protocol pitts30k", "positions must be given for `--radius` 25.0, as an array or"),
    (
        "evaluate rows.npy rows.npy --labels reals.npy reals.npy",
        "reals.npy: `identities` must have one number for each sample, [N], or bools or 0 and 1",
    ),
    ("evaluate rows.npy rows.npy --labels camera=lists.npy", "`--labels` must be files, or one of identities, cameras"),
    ("evaluate rows.npy rows.npy --labels cameras=g.npz", "g.npz: the cameras must be an array without a name, as in"),
    ("evaluate rows.npy rows.npy --labels cameras=lists.npy", "lists.npy: `cameras` must have a row for each of"),
    (
        "evaluate g.npz g.npz --labels identities=ids.npy identities=ids.npy",
        "ids.npy and ids.npy: `identities` must come",
    ),
    ("evaluate rows.npy two.npy --captions 2", "`--captions` must be how many each image has, or a file of"),
    ("evaluate rows.npy two.npy --captions 0", "`--captions` must be how many each image has, or a file of"),
    ("evaluate rows.npy two.npy --captions ids.npy", "`--captions` must be how many each image has, or a file"),
    ("evaluate rows.npy rows.npy --captions ids.npy", "`--captions` must be how many each image has, or a file"),
    ("evaluate rows.npy --captions 1", "`--captions` must be how many each image has"),
    ("evaluate g.npz g.npz --captions 1", "--captions: `identities` must come once; got it from g.npz, too."),
    ("evaluate d.npz g.npz", "d.npz: distances and scores must come in one file with all labels; got two files."),
    ("evaluate d.npz --similarity dot", "`--similarity` must come with embeddings; got distances."),
    ("evaluate nan_distances.npz", "nan_distances.npz: distances must not be NaN; got 1 rows with NaN, first 3."),
    ("evaluate rows.npy rows.npy --labels paths.csv", "the file names of the query must have the pattern 'market1501'"),
    ("evaluate g.npz g.npz --protocol market", "`--protocol` must be one of"),
    ("evaluate g.npz g.npz --reports mpa", "`--reports` must"),
    ("evaluate g.npz g.npz --k 0", "`--k` must be"),
    ("evaluate g.npz g.npz --protocol roxford5k_hard", "`--protocol` 'roxford5k_hard' needs `--ground-truth`"),
    ("evaluate rows.npy rows.npy --labels short.csv", "short.csv: `identities` must have a row for each of"),
    ("evaluate g.npz g.npz --labels short.csv short.csv", "short.csv and short.csv: `identities` must have a row"),
    ("evaluate g.npz g.npz --names embeddings", "`--names` must be words such as NAME=VALUE"),
    ("evaluate g.npz g.npz --names embeddings=x", "g.npz: `x`, named as embeddings, must be in the file; got `feat`"),
    ("evaluate g.npz g.npz --names embeddings=feat embeddings=f", "`--names` must give each name once; got 'embedd"),
    ("evaluate g.npz g.npz --fail-under mpa=1", "`--fail-under` must name one of map, minp"),
    ("evaluate g.npz g.npz --fail-under map=15", "`--fail-under` must be a share of 1 for map, such as 0.15 for 15 %"),
    ("evaluate g.npz g.npz --fail-under map=high", "`--fail-under` must be words such as NAME=VALUE"),
    ("evaluate g.npz g.npz --report a_file/report.html", "a_file/report.html: must be a path to write to"),
    ("evaluate g.npz g.npz --save no_shards", "no_shards: must be a file to write to"),
    ("evaluate g.npz g.npz --pictures a_file", "a_file: must be a folder to write to"),
    ("evaluate g.npz g.npz g.npz --max-rank 5", "each of `query` and `gallery` must name files"),
    ("lists bad.run good.qrels", "bad.run:2: "),
    ("lists good.run good.qrels", "`retrieved` must have no query that `positives` lacks; got 'q1' where these are"),
    ("lists tower_9.txt good.qrels", "tower_9.txt: must be named like a query of good.qrels; got 'tower_9'."),
    ("lists lists.npy no_shards", "There is no file *_good.txt in 'no_shards'."),
    ("detect no_shards results.json", "`ground_truths` and `detections` must both be files of JSON, or both folders"),
    (
        "pairs g.npz",
        "g.npz: arrays must be `scores`, higher for closer pairs (minus distances), and `same`, one of each; got feat,",
    ),
    ("pairs good.run", "good.run: scores must be beside `same` in arrays, or in a file for a list of pairs; got none"),
    (
        "pairs cosines.npz ids.npy",
        "cosines.npz: scores must be beside `same` in arrays, or in a file for a list of pairs; got ids",
    ),
    ("pairs cosines.npz --reports accuracy", "`accuracy` must be of cosines, from -1 to 1; got 5."),
    (
        "pairs one_kind.npz",
        "`same` must be True for some pairs and False for others; got 6 pairs of one identity and 0 of",
    ),
    (
        "pairs not_flags.npz",
        "not_flags.npz: scores must be a number for each of 6 pairs, and `same` 1 or 0; got int64 [6]",
    ),
    (
        "pairs five_flags.npz",
        "five_flags.npz: scores must be a number for each of 5 pairs, and `same` 1 or 0; got int64 [6]",
    ),
    (
        "pairs trials.txt ids.npy",
        "ids.npy: scores must be a number for each of 2 pairs, and `same` 1 or 0; got int64 [6] and",
    ),
    (
        "pairs trials.txt three.txt",
        "three.txt: scores must be a number for each of 2 pairs, and `same` 1 or 0; got float64 [3]",
    ),
    (
        "pairs trials.txt one.txt",
        "one.txt: scores must be a number for each of 2 pairs, and `same` 1 or 0; got float64 [1] and",
    ),
    ("pairs trials.txt swapped.txt", "swapped.txt:1: a line must be the score of a b; got '0.5 a c'."),
    (
        "pairs features.txt ids.npy",
        "features.txt:2: lines must all be of one form, 1 first second; first second 1; first",
    ),
    ("pairs nothing.csv", "nothing.csv: "),
    ("pairs a_file ids.npy", "a_file: lines must all be of one form"),
    ("compare no_shards g.npz", "'no_shards' must be a file; got a folder."),
    (
        "lists lists.npy objects.npy",
        "objects.npy: the file must be a whole array of numpy.save without pickle; got the",
    ),
    ("detect data_set.json bad.json", "`bad.json` must be a file of JSON"),
    ("detect results.json results.json", "`results.json` must hold `images`, a list of objects"),
    ("detect data_set.json data_set.json", "`data_set.json` must hold a list of objects"),
    (
        "detect data_set.json unknown_image.json",
        "`unknown_image.json` must have results in images of the data set only",
    ),
    ("detect data_set.json bad_box.json", "`bad_box.json` must have four numbers as `bbox`"),
    ("detect lvis.json results.json", "`lvis.json` must be annotated in full"),
    (
        "detect data_set.json results.json --iou-type rotated",
        "`data_set.json` must have `rotated_box` in every row of `annotations`; got the keys",
    ),
    ("compare g.npz results.json", "each of `files` must be that of a file of `--save`; got 'g.npz'"),
    ("compare g.npz g.npz", "`files` must be two results files or more, each once"),
    ("duplicates g.npz nan_rows.npz", "nan_rows.npz: embeddings must be finite; got 1 rows that are not, first 3."),
    ("duplicates g.npz wide.npz", "wide.npz: embeddings must be as wide as those of g.npz; got 5 and 4."),
    ("duplicates d.npz", "d.npz: `query` must be embeddings; got distances."),
    ("duplicates g.npz --threshold 95", "`--threshold` must lie in [-1, 1] under 'cosine'; got 95.0."),
]


@pytest.mark.filterwarnings("ignore:1 of 12 embeddings are NaN")
@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(("words", "line"), BROKEN, ids=[words for words, _ in BROKEN])
def test_a_broken_input_is_one_line_that_names_it(command, tmp_path, words, line):
    name, *rest = words.split()
    of_command = {"pairs": OUT[:2], "duplicates": []}
    outputs = of_command.get(name, [each for each in OUT if rest[-2:-1] != [each]])
    said = command(name, *(outputs if not {"--report", "--save", "--pictures"} & {*rest} else []), *rest)
    last = said.err.splitlines()[-1]
    assert last.startswith(f"reid-torchmetrics: {line}"), said.err
    assert said.status == 1
    assert not said.out
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("broken")
def test_debug_shows_where_an_error_comes_from(command):
    with pytest.raises(FileNotFoundError):
        command("evaluate", "nope.npz", "--debug")
