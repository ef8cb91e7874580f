"""Each option of each command acts: with it the command ends with status 0, and leaves another text or file.

A case is a line, and the words of an option that are added to it. The line alone may fail, where the files need the
option. A new option fails here until it has a case, or is in `NEUTRAL` with the reason.
"""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from reid_torchmetrics.command import COMMANDS, main, options

NEUTRAL = {
    "max_bytes": "it bounds the memory, and numbers do not depend on it",
    "stream": "the output is that of the gallery in memory, to the last digit",
    "fail_under": "it changes the exit status alone",
}
"""options that change no output, and why"""

EVALUATE = "evaluate query.npz gallery.npz --protocol market1501 --reports map rank_1 rank_2 precision_5"
LISTS = "lists I.npy --labels query.npz gallery.npz --protocol market1501 --reports map rank_1 rank_2 precision_5"
TRUTH = "evaluate query.npz gallery.npz --ground-truth truth.json --reports map rank_1"
EXACT = "lists I.npy --exact query.npz gallery.npz --protocol market1501"
DRAW = "--gallery-draw GalleryDraw --gallery-draw.shots 1"
DRAWN = "evaluate query.npz gallery.npz --protocol market1501 --reports map rank_1"
DETECT = "detect truth.coco.json found.coco.json"
YOLO = "detect yolo/labels yolo/results --evaluator yolo"
COMPARE = "compare first.results.npz second.results.npz --seed 0"

RULES = {
    "same_camera": "--same-camera all",
    "cmc_same_camera": "--cmc-same-camera all",
    "camera_map": "--camera-map '{0: 1}'",
    "search_cameras": "--search-cameras 0",
    "junk_identities": "--junk-identities 1",
    "clothes": "--clothes drop_same",
    "radius": "--radius 3",
    "must_agree": "--must-agree side",
    "must_differ": "--must-differ side",
    "empty_target_action": "--empty-target-action neg",
    "rule": "--rule trapezoid",
    "k": "--k 3",
    "precision_divisor": "--precision-divisor attainable",
    "mode": "--mode all_shots",
}
"""rules that evaluate a ranking of labeled items otherwise"""
OUTPUTS = {
    "format": "--format csv",
    "decimals": "--decimals 5",
    "json": "--json out.json",
    "save": "--save out.npz",
    "report": "--report out.html",
    "pictures": "--pictures out",
}
FILES = {"config": "--config options.yaml", "print_config": "--print-config"}

CASES = {
    "evaluate": {
        **{name: (EVALUATE, words) for name, words in (RULES | OUTPUTS | FILES).items()},
        "query": ("evaluate", "query.npz gallery.npz --protocol market1501"),
        "gallery": ("evaluate query.npz", "gallery.npz --protocol market1501"),
        "distances": ("evaluate --labels query.csv gallery.csv", "--distances matrix.npy"),
        "scores": ("evaluate --labels query.csv gallery.csv", "--scores matrix.npy"),
        "names": ("evaluate odd_query.npz odd_gallery.npz", "--names identities=own"),
        "labels": ("evaluate query.npy gallery.npy", "--labels query.csv gallery.csv"),
        "file_names": (
            "evaluate query.npy gallery.npy --labels query_names.csv gallery_names.csv",
            r"--file-names 'p(?P<identity>\d+)-c(?P<camera>\d+)'",
        ),
        "order": ("evaluate query.npy part_10.npy part_2.npy --labels query.csv gallery.csv", "--order given"),
        "captions": ("evaluate images.npy captions.npy --protocol flickr30k --reports rank_1", "--captions 5"),
        "ground_truth": ("evaluate query.npy gallery.npy --reports map", "--ground-truth truth.json"),
        "ground_truth_form": (
            "evaluate query.npy gallery.npy --reports map --ground-truth truth.txt",
            "--ground-truth-form items",
        ),
        "one_based": ("evaluate query.npy gallery.npy --reports map --ground-truth truth.json", "--one-based"),
        "protocol": ("evaluate query.npz gallery.npz", "--protocol market1501_official"),
        "reports": ("evaluate query.npz gallery.npz --protocol market1501", "--reports mrr"),
        "similarity": (EVALUATE, "--similarity euclidean"),
        "packed": ("evaluate packed_query.npz packed_gallery.npz --similarity hamming", "--packed"),
        "rerank": (EVALUATE, "--rerank KReciprocal --rerank.k1 5 --rerank.k2 2"),
        "multi_query": (
            "evaluate plain_query.npz plain_gallery.npz --protocol market1501",
            "--multi-query",
        ),
        "ties": ("evaluate codes_query.npz codes_gallery.npz", "--ties optimistic"),
        "max_rank": (f"{EVALUATE} --save out.npz", "--max-rank 7"),
        "missing_identities": ("evaluate missing_query.npz missing_gallery.npz", "--missing-identities junk"),
        "positive_lists": (TRUTH.replace("truth.json", "good.json"), "--positive-lists ok good"),
        "junk_lists": (TRUTH.replace("truth.json", "good.json"), "--junk-lists good"),
        "leave_one_out": ("evaluate query.npz gallery.npz --protocol cub200", "--no-leave-one-out"),
        "gallery_draw": (DRAWN, DRAW),
        "gallery_draw_for_map": (f"{DRAWN} {DRAW}", "--no-gallery-draw-for-map"),
        "queries_in_draw": (f"evaluate plain_gallery.npz --same-camera keep {DRAW} --reports map", "--queries-in-draw"),
        "normalizer": (f"{EVALUATE} --k 3", "--normalizer attainable"),
        "gain": ("evaluate tags_query.npz tags_gallery.npz --protocol hashing --reports ndcg_5", "--gain exponential"),
        "images": (f"{EVALUATE} --report out.html", "--images pictures"),
    },
    "lists": {
        **{name: (LISTS, words) for name, words in (RULES | OUTPUTS | FILES).items()},
        "retrieved": ("lists", "I.npy truth.json"),
        "positives": ("lists run.txt", "truth.qrels"),
        "form": ("lists items.txt truth.json", "--form items"),
        "ground_truth_form": ("lists I.npy truth.txt", "--ground-truth-form items"),
        "one_based": ("lists from_one.npy --labels plain_query.npz plain_gallery.npz", "--one-based"),
        "names": ("lists I.npy --labels odd_query.npz odd_gallery.npz", "--names identities=own"),
        "labels": ("lists I.npy --protocol market1501", "--labels query.csv gallery.csv"),
        "file_names": (
            "lists I.npy --labels query_names.csv gallery_names.csv",
            r"--file-names 'p(?P<identity>\d+)-c(?P<camera>\d+)'",
        ),
        "exact": ("lists I.npy --labels query.npz gallery.npz --protocol market1501", "--exact query.npy gallery.npy"),
        "recall_k": (EXACT, "--recall-k 3"),
        "similarity": (EXACT, "--similarity euclidean"),
        "packed": ("lists I.npy --exact packed_query.npz packed_gallery.npz --similarity hamming", "--packed"),
        "order": (
            "lists I.npy --exact query.npy part_10.npy part_2.npy --labels query.csv gallery.csv --protocol market1501",
            "--order given",
        ),
        "protocol": ("lists I.npy --labels query.npz gallery.npz", "--protocol market1501_official"),
        "reports": ("lists run.txt truth.qrels", "--reports mrr"),
        "missing_queries": ("lists run.txt truth.qrels", "--missing-queries skip"),
        "unknown_queries": ("lists run_of_more.txt truth.qrels", "--unknown-queries skip"),
        "max_rank": (f"{LISTS} --save out.npz", "--max-rank 7"),
        "missing_identities": (
            "lists I.npy --labels missing_query.npz missing_gallery.npz",
            "--missing-identities junk",
        ),
        "positive_lists": ("lists I.npy good.json", "--positive-lists ok good"),
        "junk_lists": ("lists I.npy good.json", "--junk-lists good"),
        "leave_one_out": ("lists I.npy --labels query.npz gallery.npz --protocol cub200", "--no-leave-one-out"),
        "gallery_draw": (LISTS.replace("market1501", "cuhk03_openreid"), "--gallery-draw null"),
        "normalizer": (f"{LISTS} --k 3", "--normalizer attainable"),
        "gain": ("lists run.txt graded.qrels --reports ndcg_5", "--gain exponential"),
    },
    "detect": {
        **{name: (DETECT, words) for name, words in (OUTPUTS | FILES).items()},
        "ground_truths": ("detect", "truth.coco.json found.coco.json"),
        "detections": ("detect truth.coco.json", "found.coco.json"),
        "evaluator": ("detect yolo/labels yolo/results", "--evaluator yolo"),
        "iou_type": (DETECT, "--iou-type segm"),
        "iou_thresholds": (DETECT, "--iou-thresholds 0.3 0.6"),
        "rec_thresholds": (DETECT, "--rec-thresholds 0 0.5 1"),
        "thresholds": (DETECT, "--thresholds torchmetrics"),
        "max_detection_thresholds": (DETECT, "--max-detection-thresholds 1 2 3"),
        "area_ranges": (DETECT, "--area-ranges '{all: [0, 1e10], tiny: [0, 700]}'"),
        "average": (DETECT, "--average micro"),
        "rule": (DETECT, "--rule voc"),
        "invalid": ("detect truth.coco.json invalid.coco.json", "--invalid drop"),
        "unknown_categories": ("detect truth.coco.json unknown.coco.json", "--unknown-categories drop"),
        "detection_areas": (f"{DETECT} --iou-type segm", "--detection-areas shape"),
        "image_size": ("detect yolo/labels yolo/results", "--image-size 640 480"),
        "sigmas": ("detect truth.coco.json found.coco.json --iou-type keypoints", "--sigmas 0.5 0.5"),
        "fixed": ("detect truth.lvis.json found.coco.json --evaluator lvis", "--fixed"),
        "max_detections": ("detect truth.lvis.json found.coco.json --evaluator lvis", "--max-detections 1"),
        "class_names": (f"{YOLO} --report out.html", "--class-names cat dog"),
        "images": (f"{DETECT} --report out.html", "--images pictures"),
    },
    "pairs": {
        **{name: ("pairs pairs.npz", OUTPUTS[name]) for name in ("format", "decimals", "json")},
        **{name: ("pairs pairs.npz", words) for name, words in FILES.items()},
        "pairs": ("pairs", "pairs.npz"),
        "scores": ("pairs pairs.txt", "scores.txt"),
        "form": ("pairs pairs_of_digits.txt scores.txt", "--form first"),
        "reports": ("pairs pairs.npz", "--reports eer"),
        "far": ("pairs pairs.npz", "--far 0.3"),
        "p_target": ("pairs pairs.npz", "--p-target 0.5"),
    },
    "duplicates": {
        "config": ("duplicates query.npy gallery.npy", "--config threshold.yaml"),
        "print_config": ("duplicates query.npy gallery.npy", "--print-config"),
        "query": ("duplicates", "query.npy"),
        "gallery": ("duplicates query.npy", "gallery.npy --threshold 0.5"),
        "names": ("duplicates two_matrices.npz --threshold 0.5", "--names embeddings=first"),
        "threshold": ("duplicates query.npy gallery.npy", "--threshold 0.5"),
        "similarity": ("duplicates query.npy gallery.npy", "--similarity dot"),
    },
    "compare": {
        **{name: (COMPARE, words) for name, words in (OUTPUTS | FILES).items()},
        "files": ("compare", "first.results.npz second.results.npz --seed 0"),
        "seed": ("compare first.results.npz second.results.npz", "--seed 3"),
        "level": (COMPARE, "--level 0.5"),
        "num_resamples": (COMPARE, "--num-resamples 50"),
        "num_permutations": (COMPARE, "--num-permutations 50"),
        "per_identity": (COMPARE, "--per-identity"),
    },
    "protocols": {"names": ("protocols", "market1501")},
}
OUTCOMES = {}
"""what the lines alone leave, by line"""
ALL_CASES = [(command, name) for command, cases in CASES.items() for name in cases]


def write_samples(name, rng, number, **others):
    """A file of embeddings with every label."""
    labels = {
        "identities": rng.integers(0, 5, number),
        "cameras": rng.integers(0, 3, number),
        "clothes": rng.integers(0, 2, number),
        "side": rng.integers(0, 2, number),
        "positions": rng.uniform(0, 9, (number, 2)),
        "paths": np.array([f"{row}.png" for row in range(number)]),
    }
    feat = rng.standard_normal((number, 6)).astype(np.float32)
    feat[:, 0] += labels["identities"]
    np.savez(f"{name}.npz", feat=feat, **labels | others)
    np.savez(f"plain_{name}.npz", feat=feat, identities=labels["identities"], cameras=labels["cameras"])
    np.savez(f"odd_{name}.npz", feat=feat, own=labels["identities"])
    np.save(f"{name}.npy", feat)
    rows = [f"{identity},{camera}" for identity, camera in zip(labels["identities"], labels["cameras"], strict=True)]
    Path(f"{name}.csv").write_text("\n".join(["identities,cameras", *rows]), encoding="utf-8")
    names = [f"p{row.replace(',', '-c')}.png" for row in rows]
    Path(f"{name}_names.csv").write_text("\n".join(["path", *names]), encoding="utf-8")
    missing = labels["identities"].astype(float)
    missing[0] = np.nan
    np.savez(f"missing_{name}.npz", feat=feat, identities=missing)
    bits = rng.integers(0, 2, (number, 16))
    np.savez(f"packed_{name}.npz", feat=np.packbits(bits.astype(bool), axis=1), identities=labels["identities"])
    np.savez(f"codes_{name}.npz", feat=bits[:, :4].astype(np.float32), identities=labels["identities"])
    tags = rng.integers(0, 2, (number, 3))
    tags[:, 0] |= 1 - tags[:, 1]
    np.savez(f"tags_{name}.npz", feat=feat, identities=tags)
    return feat


def write_retrieval(rng):
    query = write_samples("query", rng, 12)
    gallery = write_samples("gallery", rng, 40)
    for part, rows in (("2", slice(0, 15)), ("10", slice(15, 40))):
        np.save(f"part_{part}.npy", gallery[rows])
    np.save("matrix.npy", -np.linalg.norm(query[:, None] - gallery[None], axis=2) * rng.uniform(0.5, 1, (12, 40)))
    items = np.argsort(rng.random((12, 40)), axis=1)[:, :20]
    np.save("I.npy", items)
    np.save("from_one.npy", items + 1)
    np.save("images.npy", query)
    np.save("captions.npy", np.repeat(query, 5, axis=0) + rng.standard_normal((60, 6)).astype(np.float32))
    truth = [{"ok": [row + 1, row + 12], "junk": [row + 2]} for row in range(12)]
    good = [{"ok": lists["ok"], "good": lists["junk"]} for lists in truth]
    Path("good.json").write_text(json.dumps(good), encoding="utf-8")
    Path("truth.json").write_text(json.dumps(truth), encoding="utf-8")
    np.savez("two_matrices.npz", first=query, second=query + 1)
    Path("truth.txt").write_text("\n".join(f"{row} {row + 3}" for row in range(12)), encoding="utf-8")
    Path("items.txt").write_text("\n".join(" ".join(map(str, row[:3])) for row in items), encoding="utf-8")
    runs = [f"q{row} Q0 d{place} {place + 1} {20 - place} tag" for row in range(3) for place in range(9)]
    Path("run.txt").write_text("\n".join(runs), encoding="utf-8")
    Path("run_of_more.txt").write_text("\n".join([*runs, "q9 Q0 d1 1 2.0 tag"]), encoding="utf-8")
    judged = [f"q{row} 0 d{item} {grade}" for row in range(4) for item, grade in ((row + 1, 2), (row + 5, 1))]
    Path("graded.qrels").write_text("\n".join(judged), encoding="utf-8")
    Path("truth.qrels").write_text("\n".join(judged), encoding="utf-8")
    Path("options.yaml").write_text("decimals: 4\n", encoding="utf-8")
    Path("threshold.yaml").write_text("threshold: 0.5\n", encoding="utf-8")
    for number, name in enumerate(("first", "second")):
        words = ["--similarity", ("cosine", "dot")[number], "--save", f"{name}.results.npz"]
        assert main(["evaluate", "query.npz", "gallery.npz", "--protocol", "market1501", *words]) == 0
    same = rng.random(60) < 0.5
    scores = 0.3 * same + rng.random(60) * 0.6
    np.savez("pairs.npz", scores=scores, same=same)
    Path("scores.txt").write_text("\n".join(map(str, scores)), encoding="utf-8")
    Path("pairs.txt").write_text("\n".join(f"{int(s)} a{i} b{i}" for i, s in enumerate(same)), encoding="utf-8")
    digits = "\n".join(f"{int(s)} {i} {int(i % 3 > 0)}" for i, s in enumerate(same))
    Path("pairs_of_digits.txt").write_text(digits, encoding="utf-8")


def write_detection(rng):
    images = [{"id": number, "width": 100, "height": 100, "file_name": f"{number}.png"} for number in range(4)]
    categories = [{"id": number, "name": name, "keypoints": ["a", "b"]} for number, name in enumerate(("cat", "dog"))]
    truth, found = [], []
    for number in range(4):
        for place in range(4):
            x, y, w, h = rng.integers(5, 40, 4).tolist()
            for rows, shift in ((truth, 0), (found, int(rng.integers(0, 9)))):
                left, top = x + shift, y
                corners = [left, top, left + w, top, left + w, top + h - 2]
                row = {"image_id": number, "category_id": place % 2, "bbox": [left, top, w, h], "id": len(rows) + 1}
                row |= {"segmentation": [corners], "area": w * h, "iscrowd": 0, "num_keypoints": 2}
                row["keypoints"] = [left, top, 2, left + w, top + h - shift, 2]
                rows.append(row if rows is truth else row | {"score": float(rng.random())})
    data = {"images": images, "categories": categories, "annotations": truth}
    Path("truth.coco.json").write_text(json.dumps(data), encoding="utf-8")
    lvis = {"neg_category_ids": [], "not_exhaustive_category_ids": []}
    data = data | {"images": [image | lvis for image in images]}
    data["categories"] = [category | {"frequency": "f"} for category in categories]
    Path("truth.lvis.json").write_text(json.dumps(data), encoding="utf-8")
    Path("found.coco.json").write_text(json.dumps(found), encoding="utf-8")
    invalid = found[0] | {"bbox": [5, 5, -4, 4], "score": 0.99}
    Path("invalid.coco.json").write_text(json.dumps([*found, invalid]), encoding="utf-8")
    Path("unknown.coco.json").write_text(json.dumps([*found, found[0] | {"category_id": 7}]), encoding="utf-8")
    for side in ("labels", "results"):
        Path("yolo", side).mkdir(parents=True)
        for number in range(3):
            boxes = rng.uniform(0.4, 0.6, (3, 2)).round(3)
            lines = [f"{place % 2} {x} {y} 0.2 0.3" for place, (x, y) in enumerate(boxes)]
            ends = [f" {score:.3f}" if side == "results" else "" for score in rng.random(3)]
            text = "\n".join(map("".join, zip(lines, ends, strict=True)))
            Path("yolo", side, f"{number}.txt").write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    """The files of all cases."""
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path_factory.mktemp("options")
    rng = np.random.default_rng(3)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_retrieval(rng)
        write_detection(rng)
        Path("pictures").mkdir()
        for number in range(40):
            image.new("RGB", (8, 8), (number, 90, 0)).save(f"pictures/{number}.png")
    return folder


def outcome(line, folder, capsys):
    """The status, the text and the bytes of the files that a line leaves; clocks are no output."""
    capsys.readouterr()
    try:
        status = main(shlex.split(line))
    except SystemExit as end:
        status = end.code
    text, errors = capsys.readouterr()
    files = {}
    for path in sorted(folder.rglob("out*")):
        if path.is_file():
            files[path.name] = path.read_bytes()
            path.unlink()
        elif path.is_dir():
            for inner in sorted(path.iterdir()):
                files[inner.name] = inner.read_bytes()
                inner.unlink()
    return status, text, files, errors


def test_every_option_has_a_case_or_a_reason_to_be_neutral():
    table = [(command, option.name) for command in COMMANDS for option in options.command_options(command)]
    needed = [(command, name) for command, name in table if name not in NEUTRAL]
    assert sorted(needed) == sorted(ALL_CASES), "add a case to `CASES`: a line, and the words of the option"
    assert set(NEUTRAL) <= {name for _, name in table}


def cases_with_marks():
    """All cases; those that draw figures take seconds, and run at night."""
    for command, name in ALL_CASES:
        draws = any(re.search("--(report|pictures) ", words) for words in CASES[command][name])
        yield pytest.param(command, name, marks=[pytest.mark.nightly] * draws)


@pytest.mark.parametrize(("command", "name"), [*cases_with_marks()])
@pytest.mark.filterwarnings("ignore")
def test_an_option_changes_a_number_a_text_or_a_file(command, name, problem, capsys, monkeypatch):
    monkeypatch.chdir(problem)
    line, words = CASES[command][name]
    if line not in OUTCOMES:
        OUTCOMES[line] = outcome(line, problem, capsys)
    _, *without = OUTCOMES[line]
    status, *with_option = outcome(f"{line} {words}", problem, capsys)
    assert status == 0, with_option[-1]
    assert without[:2] != with_option[:2], f"`{words}` changes nothing"
