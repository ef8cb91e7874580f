"""The command gives the numbers of the functions behind it, in text, JSON, results files, reports and pictures."""

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch

from reid_torchmetrics.functional.retrieval import RetrievalResults, evaluate
from reid_torchmetrics.tasks import compare, evaluate_lists


def numbers(said):
    """The numbers of JSON on standard output."""
    assert said.status == 0, said.err
    return {name: each["value"] for name, each in json.loads(said.out)["measures"].items()}


@pytest.mark.slow
def test_embeddings_in_two_files(command, files, problem, tmp_path):
    outputs = ["--report", "report.html", "--save", "out/ours.npz", "--json", "ours.json", "--pictures", "pictures"]
    said = command("evaluate", *files, "--protocol", "market1501", *outputs)
    expected = evaluate(*problem)
    assert said.status == 0
    assert said.out.strip() == f"{expected:.2%}"
    guesses, *written = said.err.splitlines()
    assert guesses == "guessed: `feat` as embeddings, `pids` as identities, `camids` as cameras"
    assert sorted(written) == ["wrote ours.json", "wrote out/ours.npz", "wrote pictures", "wrote report.html"]
    assert (
        json.loads((tmp_path / "ours.json").read_text(encoding="utf-8"))["measures"] == expected.to_dict()["measures"]
    )
    assert RetrievalResults.load(tmp_path / "out" / "ours.npz").means == expected.means
    assert b"mAP" in (tmp_path / "report.html").read_bytes()
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == [
        "cmc.png",
        "first_ranks.png",
        "precision_recall.png",
    ]


def test_shards_with_a_table_of_labels(command, problem, tmp_path):
    np.save(tmp_path / "q.npy", problem.query)
    for shard, rows in enumerate(np.array_split(np.arange(50), 12)):
        np.save(tmp_path / f"gallery-{shard}.npy", problem.gallery[rows])
    rows = np.concatenate([problem.query_identities, problem.gallery_identities]), np.concatenate(problem[4:])
    lines = [f"person {identity},{camera}" for identity, camera in zip(*rows, strict=True)]
    (tmp_path / "labels.csv").write_text("\n".join(["pid,camid", *lines]), encoding="utf-8")
    expected = evaluate(*problem, junk_identities=()).means
    words = ["--labels", "labels.csv", "--json", "-"]  # no name is "-1"
    said = command("evaluate", "q.npy", "gallery-*.npy", *words)
    assert numbers(said) == expected
    assert "gallery-0.npy ... gallery-11.npy in natural order, 4 to 5 rows; labels labels.csv in the same" in said.err
    assert "guessed: `pid` as identities, " in said.err
    assert numbers(command("evaluate", "q.npy", *(f"gallery-{shard}.npy" for shard in range(12)), *words)) == expected


def test_one_file_without_sides_is_searched_among_itself(command, files, problem):
    said = command("evaluate", files[1], "--protocol", "cub200", "--json", "-")
    expected = evaluate(problem.gallery, query_identities=problem.gallery_identities, protocol="cub200")
    assert numbers(said) == pytest.approx(expected.means, abs=1e-12)
    assert "each item is searched among all others" in said.err


@pytest.mark.parametrize("name", ["gnd.json", "gnd_roxford5k.pkl"])
def test_lists_by_the_numbers_of_items(command, problem, tmp_path, name):
    np.save(tmp_path / "q.npy", problem.query)
    torch.save(torch.from_numpy(problem.gallery), tmp_path / "g.pt")
    lists = [{"easy": [query], "hard": [query + 1, 40], "junk": [45]} for query in range(12)]
    named = {"imlist": [f"i{item}" for item in range(50)], "qimlist": [f"q{query}" for query in range(12)]}
    arrays = [{key: np.array(each) for key, each in of.items()} | {"bbx": [0.5, 1, 2, 3]} for of in lists]
    contents = pickle.dumps(named | {"gnd": arrays}) if "pkl" in name else json.dumps(lists).encode()
    (tmp_path / name).write_bytes(contents)
    words = ["--ground-truth", name, "--protocol", "roxford5k_medium", "--similarity", "dot", "--json", "-"]
    expected = evaluate(
        problem.query, problem.gallery, ground_truth=lists, protocol="roxford5k_medium", similarity="dot"
    )
    assert numbers(command("evaluate", "q.npy", "g.pt", *words)) == expected.means


OXFORD = {"good": ["a", "b"], "ok": ["c", "z"], "junk": ["j"]}


@pytest.mark.parametrize("ranked", ["a b c z", "j c x a a b y", "x j", "c j c b q"])
def test_one_list_in_a_file_is_of_the_query_with_its_name(command, tmp_path, ranked):
    (tmp_path / "truth").mkdir()
    for name, items in OXFORD.items():
        (tmp_path / "truth" / f"tower_1_{name}.txt").write_text("\n".join(items), encoding="utf-8")
        (tmp_path / "truth" / f"tower_2_{name}.txt").write_text("\n".join(items), encoding="utf-8")
    (tmp_path / "tower_1.txt").write_text("\n".join(ranked.split()), encoding="utf-8")
    said = command("lists", "tower_1.txt", "truth", "--protocol", "oxford5k", "--json", "-")
    expected = evaluate_lists({"tower_1": ranked.split()}, {"tower_1": OXFORD}, protocol="oxford5k")
    assert numbers(said) == expected.means


@pytest.mark.slow
def test_lists_that_miss_a_positive_are_written_in_every_form_and_compared(command, tmp_path):
    (tmp_path / "truth.qrels").write_text("q1 0 a 1\nq2 0 b 1\n", encoding="utf-8")
    for name, found in (("one", "c"), ("two", "b")):
        (tmp_path / f"{name}.run").write_text(f"q1 Q0 a 1 0.9 x\nq2 Q0 {found} 1 0.9 x\n", encoding="utf-8")
        words = ["--reports", "mean_rank", "median_rank", "anmrr", "map", "--report", f"{name}.html"]
        words += ["--save", f"{name}.npz", "--json"]
        said = command("lists", f"{name}.run", "truth.qrels", *words, f"{name}.json")
        assert said.status == 0, said.err
        assert ("never" in said.out) == (name == "one")
        assert numbers(command("lists", f"{name}.run", "truth.qrels", *words, "-"))["map"] == (0.5, 1.0)[name == "two"]
    measures = json.loads((tmp_path / "one.json").read_text(encoding="utf-8"))["measures"]
    assert (measures["mean_rank"]["value"], measures["mean_rank"]["said"]) == (None, "never")
    assert "never" in (tmp_path / "one.html").read_text(encoding="utf-8")
    said = command("compare", "one.npz", "two.npz", "--report", "compared.html")
    assert said.status == 0, said.err
    assert "never" in said.out
    assert command("compare", "one.npz", "two.npz", "--json", "-").status == 0


def test_lists_of_trec_and_of_an_index(command, tmp_path):
    (tmp_path / "bm25.run").write_text("q1 Q0 d2 1 0.9 x\nq1 Q0 d1 2 0.5 x\n", encoding="utf-8")
    (tmp_path / "robust.qrels").write_text("q1 0 d1 2\nq1 0 d3 0\nq2 0 d2 1\n", encoding="utf-8")
    run, qrels = {"q1": {"d2": 0.9, "d1": 0.5}}, {"q1": {"d1": 2, "d3": 0}, "q2": {"d2": 1}}
    for words, options in (
        (["--reports", "map", "ndcg_10", "bpref"], {"reports": ("map", "ndcg_10", "bpref")}),
        (["--missing-queries", "skip"], {"missing_queries": "skip"}),
    ):
        said = command("lists", "bm25.run", "robust.qrels", *words, "--json", "-")
        assert numbers(said) == evaluate_lists(run, qrels, **options).means
    with (tmp_path / "bm25.run").open("a", encoding="utf-8") as lines:
        lines.write("q9 Q0 d2 1 0.9 x\n")
    said = command("lists", "bm25.run", "robust.qrels", "--unknown-queries", "skip", "--json", "-")
    assert numbers(said) == evaluate_lists(run, qrels).means
    np.save(tmp_path / "I.npy", np.array([[4, 2, -1], [0, 1, 2]]))
    (tmp_path / "truth.json").write_text("[[2], [0]]", encoding="utf-8")
    words = ["lists", "I.npy", "truth.json", "--reports", "map", "--json", "-"]
    assert numbers(command(*words)) == {"map": 0.75}
    assert [command(*words, "--fail-under", f"map={least}").status for least in (0.75, 0.7501)] == [0, 1]


def test_labels_with_cameras_follow_the_protocol_of_evaluate(command, tmp_path):
    generator = np.random.default_rng(0)
    query, gallery = generator.normal(size=(6, 4)), generator.normal(size=(20, 4))
    retrieved = (-query @ gallery.T).argsort(axis=1, kind="stable")
    np.save(tmp_path / "I.npy", retrieved)
    for name, embeddings in (("query", query), ("gallery", gallery)):
        numbers_of_rows = np.arange(len(embeddings))
        labels = {"pids": numbers_of_rows % 3, "camids": numbers_of_rows % 2}
        np.savez(tmp_path / f"{name}.npz", feat=embeddings, **labels)
        np.savez(tmp_path / f"{name}_clothes.npz", **labels, clothes=numbers_of_rows % 2)
    labels = (np.arange(6) % 3, np.arange(20) % 3, np.arange(6) % 2, np.arange(20) % 2)
    expected = evaluate(query, gallery, *labels, similarity="dot")
    lists = ["lists", "I.npy", "--json", "-"]
    assert numbers(command(*lists, "--labels", "query.npz", "gallery.npz")) == expected.means
    said = command(*lists, "--exact", "query.npz", "gallery.npz", "--similarity", "dot")
    assert said.status == 0, said.err
    measures = json.loads(said.out)["measures"]
    assert {name: row["mean_b"] for name, row in measures.items()} == expected.means
    assert {row["difference"] for row in measures.values()} == {0.0}
    said = command(*lists, "--labels", "query_clothes.npz", "gallery_clothes.npz")
    assert said.status != 0
    assert "must come with a rule that reads it, such as `--clothes`, or with the name of a `--protocol`" in said.err


@pytest.mark.slow
def test_results_files_are_compared(command, files, problem, tmp_path):
    command("evaluate", *files, "--save", "a.npz")
    command("evaluate", *files, "--similarity", "euclidean", "--save", "b.npz")
    words = ["--seed", "3", "--num-resamples", "50", "--json", "c.json", "--report", "c.html", "--save", "c.npz"]
    said = command("compare", "a.npz", "b.npz", *words, "--pictures", "pictures")
    a, b = evaluate(*problem), evaluate(*problem, similarity="euclidean")
    expected = compare({"a": a, "b": b}, num_resamples=50, generator=torch.Generator().manual_seed(3))
    assert said.status == 0
    assert said.out.strip() == f"{expected:.2%}"
    assert json.loads((tmp_path / "c.json").read_text(encoding="utf-8"))["measures"] == expected.to_dict()["measures"]
    assert (tmp_path / "pictures" / "comparison.png").stat().st_size
    assert (tmp_path / "c.html").stat().st_size


@pytest.mark.nightly
def test_several_processes_give_the_bits_of_one(files, problem, tmp_path):
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words = ["-m", "reid_torchmetrics", "evaluate", *files, "--json", "-"]
    done = subprocess.run([*launch, *words], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=600)
    values = {name: each["value"] for name, each in json.loads(done.stdout)["measures"].items()}
    assert values == evaluate(*problem).means
