"""Names that look like numbers: labels in files decide what a rule lists, as in Python."""

import json

import numpy as np
import pytest
import yaml

from reid_torchmetrics import evaluate_scores

DIGITS = {"identities": ["7", "07", "8", "7", "8"], "cameras": ["1", "01", "1", "01", "2"]}
RULES_OF_DIGITS = [
    (["--camera-map", '{"01": "1"}'], {"camera_map": {"01": "1"}}),
    (["--camera-map", "{01: 1}"], {"camera_map": {"01": "1"}}),
    (["--camera-map", "{1: 3, 01: 4}"], {"camera_map": {"1": "3", "01": "4"}}),
    (["--camera-map.01", "1"], {"camera_map": {"01": "1"}}),
    (["--search-cameras", "1", "2"], {"search_cameras": ("1", "2")}),
    (["--search-cameras", "01"], {"search_cameras": ("01",)}),
    (["--junk-identities", "07", "-1"], {"junk_identities": ("07", "-1")}),
    (["--config", "rules.yaml"], {"search_cameras": ("1", "01"), "junk_identities": ("07",)}),
]


@pytest.mark.parametrize(("words", "rules"), RULES_OF_DIGITS)
@pytest.mark.parametrize("form", ["npz", "stream", "lists", "exact"])
def test_names_of_digits_are_names_in_rules(command, tmp_path, words, rules, form):
    """As Python takes them: the files decide whether labels are names, and `01` is not `1`."""
    (tmp_path / "rules.yaml").write_text('search_cameras: ["1", "01"]\njunk_identities: ["07"]\n', encoding="utf-8")
    embeddings = np.random.default_rng(1).standard_normal((5, 4)).astype(np.float32)
    arrays = {name: np.array(values) for name, values in DIGITS.items()}
    for role, sign in (("query", 1), ("gallery", 0.5)):
        np.savez(tmp_path / f"{role}.npz", feat=embeddings * sign + (1 - sign), **arrays)
    scores = embeddings @ (0.5 * embeddings + 0.5).T
    np.save(tmp_path / "lists.npy", np.argsort(-scores))
    files = {
        "npz": ["evaluate", "query.npz", "gallery.npz", "--similarity", "dot"],
        "stream": ["evaluate", "query.npz", "gallery.npz", "--similarity", "dot", "--stream"],
        "lists": ["lists", "lists.npy", "--labels", "query.npz", "gallery.npz"],
        "exact": ["lists", "lists.npy", "--exact", "query.npz", "gallery.npz", "--similarity", "dot"],
    }
    outcome = command(*files[form], "--protocol", "market1501", "--reports", "map", *words, "--json", "-")
    assert outcome.status == 0, outcome.err
    labels = [arrays[name] for name in ("identities", "identities", "cameras", "cameras")]
    expected = evaluate_scores(scores, *labels, **rules).means["map"]
    found = json.loads(outcome.out)
    if form == "exact":
        values = [found["measures"]["map"][mean] for mean in ("mean_a", "mean_b")]
    else:
        values = [found["measures"]["map"]["value"]]
    assert np.array(values, dtype=float) == pytest.approx(expected, nan_ok=True)


def test_numbers_in_rules_stay_numbers_where_labels_are_numbers(command, tmp_path):
    embeddings = np.random.default_rng(1).standard_normal((5, 4)).astype(np.float32)
    np.savez(tmp_path / "x.npz", feat=embeddings, pids=[7, 7, 8, 7, 8], camids=[1, 2, 1, 2, 3])
    for words in (["--search-cameras", "01", "2"], ["--camera-map", "{01: 2}"], ["--camera-map", '{"1": "2"}']):
        assert command("evaluate", "x.npz", *words).status == 0


def test_a_printed_file_of_options_keeps_digits(command):
    words = ["--search-cameras", "1", "01", "--camera-map", "{01: 2}"]
    printed = command("evaluate", "q", *words, "--print-config").out
    assert yaml.safe_load(printed) == {"query": "q", "search_cameras": [1, "01"], "camera_map": {"01": 2}}
