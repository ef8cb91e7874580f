"""What needs no number is there at once: errors in words and files, and the words of protocols, without torch."""

import json
import subprocess
import sys

import numpy as np
import pytest

from reid_torchmetrics.command import COMMANDS, main
from reid_torchmetrics.functional.retrieval import PROTOCOLS
from tests.command import protocol_words

WITHOUT_TORCH = """
import sys
from reid_torchmetrics.command import main
status = main(sys.argv[1:])
loaded = {"torch", "numpy", "torchmetrics", "matplotlib", "yaml"} & sys.modules.keys()
sys.exit(f"loaded {loaded}" if loaded else status)
"""
WITHOUT_TORCHMETRICS = """
import sys
from reid_torchmetrics.command import main
for line in sys.argv[1:]:
    assert main(line.split()) == 0, line
    assert "torchmetrics" not in sys.modules, line
"""
WITH_FILES = {
    # words, and what the line about them says; there are query.npz and the folder labels
    "evaluate nope.npz": "There is no file 'nope.npz'.",
    "evaluate query.npz nope.npz": "There is no file 'nope.npz'.",
    "evaluate query.npz gallery-*.npy": "There is no file 'gallery-*.npy'.",
    "evaluate query.npz --labels query.npz nope.csv": "There is no file 'nope.csv'.",
    "evaluate query.npz --labels cameras=nope.npy": "There is no file 'nope.npy'.",
    "evaluate query.npz --labels cameras=nope-*.npy": "There is no file 'nope-*.npy'.",
    "evaluate query.npz --labels positions=nope.npz:utmQ": "There is no file 'nope.npz'.",
    "evaluate query.npz --labels side=nope.npy --must-agree side": "There is no file 'nope.npy'.",
    "evaluate query.npz --captions nope.npy": "There is no file 'nope.npy'.",
    "evaluate query.npz --ground-truth nope.json": "There is no file 'nope.json'.",
    "evaluate --distances nope.npy --labels query.npz": "There is no file 'nope.npy'.",
    "evaluate --scores nope.npy --labels query.npz": "There is no file 'nope.npy'.",
    "lists nope.run query.npz": "There is no file 'nope.run'.",
    "lists query.npz nope.qrels": "There is no file 'nope.qrels'.",
    "lists query.npz --labels query.npz nope.csv": "There is no file 'nope.csv'.",
    "detect nope.json query.npz": "There is no file 'nope.json'.",
    "detect labels nope --evaluator yolo": "There is no file 'nope'.",
    "detect labels nope --evaluator dota": "There is no file 'nope'.",
    "pairs nope.npz": "There is no file 'nope.npz'.",
    "pairs query.npz nope.txt": "There is no file 'nope.txt'.",
    "compare query.npz nope.npz": "There is no file 'nope.npz'.",
    "duplicates query.npz nope.npz": "There is no file 'nope.npz'.",
    "evaluate --config options.yaml": "There is no file 'from_a_file.npz'.",
    "protocols market": "`names` must be some of 'market1501', ",
}
USAGE = {
    # Options are looked at before files, so that a line about words comes first.
    "evaluate nope.npz --k abc": "`--k` must be a whole number or null; got 'abc'.",
    "evaluate nope.npz --rerank.k1 abc": "`--rerank.k1` must be a whole number; got 'abc'.",
    "evaluate nope.npz --rule rect": "`--rule` must be one of ",
    "evaluate nope.npz --scores nope.npy": "`--scores` must come without files of embeddings",
    "evaluate nope.npz --ground-truth-form pairs": "`--ground-truth-form` and `--one-based` must come with",
    "evaluate --distances nope.npy --scores nope.npy": "`query` must be a file of embeddings, or `--distances` or",
    "evaluate": "`query` must be a file of embeddings, or `--distances` or `--scores`",
    "lists nope.run": "the right items must come as a file, or by `--labels`",
    "lists nope.run nope.qrels --labels nope.csv nope.csv": "the right items must come as a file, or by `--labels`",
    "lists nope.run --labels a b --ground-truth-form pairs": "`--ground-truth-form` must come with a file of the",
    "evaluate nope.npz --reports map --reports minp": "--reports must be given once, with all its values; got it",
    "evaluate nope.npz --k=5 --k 7": "--k must be given once, with all its values; got it twice",
    "evaluate nope.npz --images labels": "`--images` must come with `--report`, which shows them; got no report",
    "evaluate nope.npz --images labels --report p.html --multi-query": "`--images` must come without `--multi-query`",
}
ABOUT_ITEMS = {
    "--ties stable": "--ties stable",
    "--rerank.k1 5": "--rerank",
    "--rerank KReciprocal": "--rerank",
    "--report page.html": "--report",
    "--multi-query": "--multi-query",
    "--gallery-draw.shots 1 --gallery-draw.per identity": "--gallery-draw",
    "--ground-truth lists.json": "--ground-truth",
}
ABOUT_EMBEDDINGS = {
    "--similarity dot": "--similarity",
    "--packed": "--packed",
    "--rerank.k1 4": "--rerank",
    "--multi-query": "--multi-query",
    "--stream": "--stream",
    "--order given": "--order",
}
EXCLUDED = {
    "evaluate nope.npz --stream": "`--stream` must come with the files of a gallery; got none.",
    "evaluate nope.npz --images none --report p.html": "There is no folder 'none'.",
    "evaluate nope.npz --images query.npz --report p.html": "There is no folder 'query.npz'.",
}
for words, option in ABOUT_ITEMS.items():
    rule = f"`--stream` must come without `{option}`, as it drops the items of the gallery; got both."
    EXCLUDED[f"evaluate nope.npz nope.npz --stream {words}"] = rule
for words, option in ABOUT_EMBEDDINGS.items():
    EXCLUDED[f"evaluate --distances nope.npy {words}"] = f"`{option}` must come with embeddings; got `--distances`."


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    """A folder with some files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "query.npz").write_bytes(b"")
    (tmp_path / "labels").mkdir()
    (tmp_path / "options.yaml").write_text("query: from_a_file.npz\n", encoding="utf-8")


@pytest.mark.usefixtures("in_folder")
@pytest.mark.parametrize(
    ("line", "message", "status"),
    [
        *((line, message, 1) for line, message in (WITH_FILES | EXCLUDED).items()),
        *((line, message, 2) for line, message in USAGE.items()),
    ],
)
def test_a_wrong_line_is_told_before_a_subcommand_is_imported(line, message, status, capsys, monkeypatch):
    name = line.split()[0]
    if name != "protocols":  # it is small
        monkeypatch.setitem(sys.modules, f"reid_torchmetrics.command.{name}", None)
    assert main(line.split()) == status
    printed = capsys.readouterr()
    assert printed.err.startswith(f"reid-torchmetrics: {message}")
    assert not printed.out


@pytest.mark.usefixtures("in_folder")
@pytest.mark.parametrize(
    "line", ["evaluate nope.npz", "evaluate nope.npz --rerank.k1 abc", "lists query.npz --labels query.npz nope.csv"]
)
def test_an_error_needs_no_torch(line):
    words = [sys.executable, "-c", WITHOUT_TORCH, *line.split()]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode in (1, 2)
    (message,) = done.stderr.splitlines()
    assert message.startswith("reid-torchmetrics: ")


@pytest.mark.slow
def test_one_process_needs_no_torchmetrics(tmp_path):
    image = {"id": 1, "height": 9, "width": 9}
    result = {"image_id": 1, "category_id": 1, "bbox": [0, 0, 5, 5], "score": 0.5}
    truth = {"images": [image], "categories": [{"id": 1}], "annotations": [result | {"id": 1, "area": 25}]}
    (tmp_path / "truth.json").write_text(json.dumps(truth), encoding="utf-8")
    (tmp_path / "found.json").write_text(json.dumps([result]), encoding="utf-8")
    (tmp_path / "bm25.run").write_text("1 Q0 a 1 0.5 x\n1 Q0 b 2 0.4 x\n", encoding="utf-8")
    (tmp_path / "robust.qrels").write_text("1 0 a 1\n", encoding="utf-8")
    np.savez(tmp_path / "matrix.npz", distances=np.eye(2), query_identities=[1, 2], gallery_identities=[2, 1])
    np.savez(tmp_path / "samples.npz", features=np.eye(4), pids=[1, 2, 1, 2], is_query=[True, True, False, False])
    lines = [
        "detect truth.json found.json --save a.npz",
        "detect truth.json found.json --save b.npz",
        "compare a.npz b.npz",
        "lists bm25.run robust.qrels",
        "evaluate matrix.npz",
        "evaluate samples.npz --report page.html --save c.npz",
    ]
    words = [sys.executable, "-c", WITHOUT_TORCHMETRICS, *lines]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("line", ["--help", "protocols", "protocols market1501 roxford5k_hard"])
def test_help_and_protocols_need_no_torch(line):
    words = [sys.executable, "-c", WITHOUT_TORCH, *line.split()]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert line != "--help" or all(f"\n    {name}" in done.stdout for name in COMMANDS)


def test_the_words_of_protocols_are_those_of_the_protocols():
    written = protocol_words.FILE.read_text(encoding="utf-8") == protocol_words.contents()
    assert written, "command/protocols.json is not that of the protocols: run `python -m tests.command.protocol_words`"


def test_all_protocols_are_printed_with_their_sources(capsys):
    assert main(["protocols"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for line, (name, protocol) in zip(lines, PROTOCOLS.items(), strict=True):
        assert line.split()[0] == name
        assert line.endswith(protocol.source)


def test_a_protocol_that_was_meant_is_named(capsys):
    assert main(["protocols", "market_1501"]) == 1
    assert "some of 'market1501', 'market1501_official', " in (said := capsys.readouterr().err)
    assert " and 50 more; got 'market_1501', which may be 'market1501'." in said
