"""`evaluate` on embeddings that other tools wrote: the number of the definition, or an error that names the cause."""

import importlib
import json
import re

import pytest

from reid_torchmetrics.command import main
from tests.writers import samples
from tests.writers.problems import people, retrieval_map

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("default")]


@pytest.fixture
def evaluate(capsys):
    """The command: its mAP, and what it said."""

    def call(*words):
        capsys.readouterr()
        status = main(["evaluate", *map(str, words), "--json", "-"])
        output = capsys.readouterr()
        number = json.loads(output.out)["measures"]["map"]["value"] if status == 0 else None
        return number, output.err

    return call


@pytest.mark.parametrize("name", samples.WRITERS)
def test_files_of_a_tool_have_the_number_of_the_definition_or_a_named_error(name, evaluate, tmp_path):
    writer = samples.WRITERS[name]
    query, gallery = people()
    number, said = evaluate(writer.write(query, tmp_path / "query"), writer.write(gallery, tmp_path / "gallery"))
    if writer.refusal:
        assert number is None
        assert writer.refusal in said
    else:
        assert number == pytest.approx(retrieval_map(query, gallery), abs=1e-6), said


@pytest.mark.parametrize("name", [name for name, writer in samples.WRITERS.items() if writer.refusal])
def test_the_line_in_the_message_converts_the_file(name, evaluate, tmp_path, monkeypatch):
    sides = people()
    tables = []
    for side, place in zip(sides, ("query", "gallery"), strict=True):
        folder = tmp_path / place
        folder.mkdir()
        monkeypatch.chdir(folder)
        path = samples.WRITERS[name].write(side, folder / "file")
        _, said = evaluate(path, path)
        line = re.search(r"convert it by `(.*?)`", said)[1]
        packages = {word: importlib.import_module(word) for word in ("pandas", "datasets", "pyarrow")}
        exec(line, {**packages, "path": path, "folder": str(path)})  # noqa: S102 - as a user would paste it
        tables.append(folder / "table.parquet")
    number, said = evaluate(*tables)
    assert number == pytest.approx(retrieval_map(*sides), abs=1e-6), said


NAMED = ("pandas: Parquet", "pandas: categories", "polars: Enum", "datasets: ClassLabel", "datasets: texts")


@pytest.mark.parametrize("gallery_name", NAMED)
def test_two_tools_speak_of_the_same_people_by_their_names(gallery_name, evaluate, tmp_path):
    query, gallery = people()
    paths = [
        samples.WRITERS["polars: categories"].write(query, tmp_path / "query"),
        samples.WRITERS[gallery_name].write(gallery, tmp_path / "gallery"),
    ]
    number, _ = evaluate(*paths)
    assert number == pytest.approx(retrieval_map(query, gallery), abs=1e-6)


@pytest.mark.parametrize("query_name", NAMED)
def test_names_beside_numbers_are_an_error_with_the_first_of_each_side(query_name, evaluate, tmp_path):
    query, gallery = people()
    paths = [
        samples.WRITERS[query_name].write(query, tmp_path / "query"),
        samples.WRITERS["pandas: numbers"].write(gallery, tmp_path / "gallery"),
    ]
    number, said = evaluate(*paths)
    assert number is None
    assert query.names[0] in said


def test_labels_in_another_order_are_joined_by_the_names_of_files(evaluate, tmp_path):
    sides = people()
    for side, place in zip(sides, ("query", "gallery"), strict=True):
        table = samples.pandas_frame(side)
        table.drop(columns="identity").to_parquet(tmp_path / f"{place}.parquet")
        table.iloc[::-1][["path", "identity"]].to_csv(tmp_path / f"{place}.csv", index=False)
    tables = [tmp_path / f"{place}.parquet" for place in ("query", "gallery")]
    number, said = evaluate(*tables, "--labels", *(table.with_suffix(".csv") for table in tables))
    assert number == pytest.approx(retrieval_map(*sides), abs=1e-6), said
