"""Files of embeddings and their labels as other tools write them: a function for each tool and layout."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.writers.problems import PEOPLE, People

Write = Callable[[People, Path], Path]


class Writer(NamedTuple):
    """How a tool writes a side."""

    write: Write
    refusal: str = ""
    """the error, for a form that is not read"""


def _numbers(side: People) -> list[int]:
    return [PEOPLE.index(name) for name in side.names]


def _columns(side: People) -> dict[str, Any]:
    return {"embedding": side.embeddings.tolist(), "identity": side.names, "path": side.paths}


def pandas_frame(side: People) -> Any:
    import pandas as pd  # noqa: PLC0415

    return pd.DataFrame(_columns(side))


def pandas_parquet(side: People, path: Path) -> Path:
    pandas_frame(side).to_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def pandas_categorical(side: People, path: Path) -> Path:
    """Each side has codes of its own."""
    table = pandas_frame(side)
    table["identity"] = table["identity"].astype("category")
    table.to_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def pandas_index(side: People, path: Path) -> Path:
    pandas_frame(side).set_index("path").to_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def pandas_numbers(side: People, path: Path) -> Path:
    pandas_frame(side).assign(identity=_numbers(side)).to_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def pandas_text(side: People, path: Path) -> Path:
    pandas_frame(side).to_csv(path.with_suffix(".csv"))
    return path.with_suffix(".csv")


def pandas_wide(side: People, path: Path) -> Path:
    import pandas as pd  # noqa: PLC0415

    wide = pd.DataFrame(side.embeddings).add_prefix("x")
    wide.insert(0, "identity", side.names)
    wide.to_csv(path.with_suffix(".csv"), index=False)
    return path.with_suffix(".csv")


def pandas_pickle(side: People, path: Path) -> Path:
    pandas_frame(side).to_pickle(path.with_suffix(".pkl"))
    return path.with_suffix(".pkl")


def pandas_feather(side: People, path: Path) -> Path:
    pandas_frame(side).to_feather(path.with_suffix(".feather"))
    return path.with_suffix(".feather")


def pandas_json(side: People, path: Path) -> Path:
    pandas_frame(side).to_json(path.with_suffix(".json"))
    return path.with_suffix(".json")


def pandas_lines(side: People, path: Path) -> Path:
    pandas_frame(side).to_json(path.with_suffix(".jsonl"), orient="records", lines=True)
    return path.with_suffix(".jsonl")


def _polars(side: People) -> Any:
    import polars as pl  # noqa: PLC0415

    return pl.DataFrame(_columns(side))


def polars_parquet(side: People, path: Path) -> Path:
    _polars(side).write_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def polars_array(side: People, path: Path) -> Path:
    import polars as pl  # noqa: PLC0415

    table = _polars(side).with_columns(pl.col("embedding").cast(pl.Array(pl.Float32, 8)))
    table.write_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def polars_categorical(side: People, path: Path) -> Path:
    import polars as pl  # noqa: PLC0415

    _polars(side).with_columns(pl.col("identity").cast(pl.Categorical)).write_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def polars_enum(side: People, path: Path) -> Path:
    import polars as pl  # noqa: PLC0415

    names = pl.Enum(sorted({*side.names}))
    _polars(side).with_columns(pl.col("identity").cast(names)).write_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def polars_row_groups(side: People, path: Path) -> Path:
    _polars(side).with_row_index().write_parquet(path.with_suffix(".parquet"), row_group_size=7)
    return path.with_suffix(".parquet")


def polars_ipc(side: People, path: Path) -> Path:
    _polars(side).write_ipc(path.with_suffix(".arrow"), compression="uncompressed")
    return path.with_suffix(".arrow")


def polars_stream(side: People, path: Path) -> Path:
    _polars(side).write_ipc_stream(path.with_suffix(".arrow"))
    return path.with_suffix(".arrow")


def polars_lines(side: People, path: Path) -> Path:
    _polars(side).write_ndjson(path.with_suffix(".ndjson"))
    return path.with_suffix(".ndjson")


def _hugging_face(side: People, identity: Any, numbers: list[Any], vectors: Any = None) -> Any:
    import datasets  # noqa: PLC0415

    features = datasets.Features(
        embedding=vectors or datasets.List(datasets.Value("float32")), label=identity, path=datasets.Value("string")
    )
    columns = {"embedding": side.embeddings.tolist(), "label": numbers, "path": side.paths}
    if isinstance(vectors, datasets.Array2D):
        columns["embedding"] = side.embeddings[:, None].tolist()
    return datasets.Dataset.from_dict(columns, features)


def hugging_face_names(side: People, path: Path) -> Path:
    """`ClassLabel` of the names of this side alone, as of `load_dataset("imagefolder")`."""
    import datasets  # noqa: PLC0415

    names = sorted({*side.names})
    labels = datasets.ClassLabel(names=names)
    table = _hugging_face(side, labels, [names.index(name) for name in side.names])
    table.to_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def hugging_face_texts(side: People, path: Path) -> Path:
    import datasets  # noqa: PLC0415

    _hugging_face(side, datasets.Value("string"), side.names).to_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def hugging_face_array(side: People, path: Path) -> Path:
    import datasets  # noqa: PLC0415

    vectors = datasets.Array2D((1, 8), "float32")
    table = _hugging_face(side, datasets.Value("string"), side.names, vectors)
    table.to_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def hugging_face_disk(side: People, path: Path) -> Path:
    import datasets  # noqa: PLC0415

    _hugging_face(side, datasets.Value("string"), side.names).save_to_disk(path)
    return path


def hugging_face_json(side: People, path: Path) -> Path:
    import datasets  # noqa: PLC0415

    _hugging_face(side, datasets.Value("string"), side.names).to_json(path.with_suffix(".jsonl"))
    return path.with_suffix(".jsonl")


def hugging_face_csv(side: People, path: Path) -> Path:
    import datasets  # noqa: PLC0415

    _hugging_face(side, datasets.Value("string"), side.names).to_csv(path.with_suffix(".csv"))
    return path.with_suffix(".csv")


WRITERS = {
    "pandas: Parquet": Writer(pandas_parquet),
    "pandas: categories": Writer(pandas_categorical),
    "pandas: an index": Writer(pandas_index),
    "pandas: numbers": Writer(pandas_numbers),
    "pandas: vectors as text": Writer(pandas_text),
    "pandas: a column for each dimension": Writer(pandas_wide),
    "pandas: pickle": Writer(pandas_pickle, "convert it by `pandas.read_pickle(path)"),
    "pandas: Feather": Writer(pandas_feather, "convert it by `pandas.read_feather(path)"),
    "pandas: JSON": Writer(pandas_json, "convert it by `pandas.read_json(path)"),
    "pandas: lines of JSON": Writer(pandas_lines, "convert it by `pandas.read_json(path, lines=True)"),
    "polars: Parquet": Writer(polars_parquet),
    "polars: arrays": Writer(polars_array),
    "polars: categories": Writer(polars_categorical),
    "polars: Enum": Writer(polars_enum),
    "polars: row groups": Writer(polars_row_groups),
    "polars: IPC": Writer(polars_ipc, "convert it by `pandas.read_feather(path)"),
    "polars: stream": Writer(polars_stream, "pyarrow.ipc.open_stream(path)"),
    "polars: lines of JSON": Writer(polars_lines, "convert it by `pandas.read_json(path, lines=True)"),
    "datasets: ClassLabel": Writer(hugging_face_names),
    "datasets: texts": Writer(hugging_face_texts),
    "datasets: Array2D": Writer(hugging_face_array),
    "datasets: save_to_disk": Writer(hugging_face_disk, "convert it by `datasets.load_from_disk(folder)"),
    "datasets: lines of JSON": Writer(hugging_face_json, "convert it by `pandas.read_json(path, lines=True)"),
    "datasets: CSV": Writer(hugging_face_csv),
}
"""by what the tools call their layouts"""
