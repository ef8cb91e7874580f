"""Runs what CI runs: `nox` for everything, `nox -s lint` for a part, `--no-venv` in an environment that has it all."""

from datetime import datetime, timezone
from pathlib import Path

import nox
from nox.command import CommandFailed

nox.options.sessions = ["lint", "types", "workflows", "docs", "package", "tests"]

GIT_TORCHMETRICS = "torchmetrics @ git+https://github.com/Lightning-AI/torchmetrics"
SCHEMAS = {
    "github-workflows": [".github/workflows/*.yml"],
    "dependabot": [".github/dependabot.yml"],
    "github-issue-forms": [".github/ISSUE_TEMPLATE/[!c]*.yml"],
    "github-issue-config": [".github/ISSUE_TEMPLATE/config.yml"],
    "citation-file-format": ["CITATION.cff"],
}


def install(session: nox.Session, *what: str, constraints: str = "constraints.txt") -> None:
    """The development environment, in the versions that the project is tested with; or what is asked for."""
    if session.virtualenv.is_sandboxed:
        session.install("-c", constraints, *(what or ("-e", ".[example]", "--group", "dev")))


def build(session: nox.Session, directory: Path) -> Path:
    """Build the source distribution, and from it the wheel, whose path is returned."""
    session.run("python", "-m", "build", "--outdir", str(directory))
    return max(directory.glob("*.whl"), key=lambda wheel: wheel.stat().st_mtime)


def unpack(session: nox.Session, wheel: Path) -> dict[str, str]:
    """Install a wheel without what it needs, beside the environment: the variables that put it before all others."""
    place = wheel.parent.resolve() / "installed"
    session.run(*("python", "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"), "--target", str(place), wheel)
    return {"PYTHONPATH": str(place)}


def check_place(session: nox.Session, place: str, env: dict[str, str]) -> None:
    """Fail unless the package that is imported lies below a folder."""
    check = "import reid_torchmetrics as package, sys; sys.exit(not package.__file__.startswith(sys.argv[1]))"
    session.run("python", "-c", check, place, env=env)


def doctests(session: nox.Session, env: dict[str, str]) -> None:
    """Import every module of the installed package, and run its examples."""
    session.run("python", "-m", "pytest", "-q", "-c", "pyproject.toml", "--pyargs", "reid_torchmetrics", env=env)


@nox.session
def lint(session: nox.Session) -> None:
    """Lint and formatting."""
    install(session)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Types of the package, and what the benchmarks call."""
    install(session)
    session.run("mypy")
    session.run("mypy", "--config-file=benchmarks/mypy.ini", "benchmarks")


def build_site(session: nox.Session, builder: str, *options: str) -> None:
    """Build the site in `docs/_build`; a warning is an error, and so is a link that leads nowhere."""
    install(session, "-e", ".[example]", "--group", "docs")
    session.run("sphinx-build", "-b", builder, "-n", "-W", "--keep-going", *options, "docs", f"docs/_build/{builder}")


@nox.session
def docs(session: nox.Session) -> None:
    """The site; the scripts of its gallery are run."""
    build_site(session, "html", *session.posargs)
    install(session, "--group", "test")
    session.run("pytest", "-q", "tests/test_gallery_pictures.py")


@nox.session
def links(session: nox.Session) -> None:
    """Links of the site to other sites. Wants a network."""
    build_site(session, "linkcheck", "-D", "plot_gallery=0")


@nox.session
def workflows(session: nox.Session) -> None:
    """The files that a code host reads: their schemas, and what workflows may do. Needs no network."""
    install(session)
    session.run("zizmor", "--offline", "--no-progress", "--persona", "pedantic", ".github")
    for schema, patterns in SCHEMAS.items():
        files = sorted(str(path) for pattern in patterns for path in Path().glob(pattern))
        session.run("check-jsonschema", "--builtin-schema", f"vendor.{schema}", *files)


@nox.session
def package(session: nox.Session) -> None:
    """Source distribution and wheel; its modules are imported, its examples run. `-- dist` keeps both in a folder."""
    install(session)
    directory = Path(session.posargs[0] if session.posargs else session.create_tmp())
    wheel = build(session, directory)
    session.run(
        "twine", "check", "--strict", *(str(path) for path in directory.glob(f"{wheel.name.split('-py3')[0]}*"))
    )
    env = unpack(session, wheel)
    check_place(session, env["PYTHONPATH"], env)
    doctests(session, env)
    session.run("python", "-m", "tests.public_types", env=env)


@nox.session
def tests(session: nox.Session) -> None:
    """The suite."""
    install(session)
    session.run("pytest", "-n", "auto", *session.posargs)


ROOMS = sorted(
    f"tests/{path.name}" for path in Path("src/reid_torchmetrics").iterdir() if Path("tests", path.name).is_dir()
)


def tests_of(path: str) -> list[str]:
    """The tests of a source file, those of its room alone; of a folder with all in it; all for what all rooms share."""
    place = Path(path).resolve().relative_to(Path(__file__).parent)
    if place.parts[:2] != ("src", "reid_torchmetrics"):
        return [str(place)]
    inside = Path("tests", *place.parts[2:])
    if not place.suffix:
        return [str(inside)]
    return ROOMS if inside.parent == Path("tests") else sorted(map(str, inside.parent.glob("test_*.py")))


@nox.session
def quick(session: nox.Session) -> None:
    """The rooms of source files in seconds, `-- PATH ...`, or all rooms: few examples, no shapes, no processes."""
    install(session)
    asked = sorted({test for path in session.posargs for test in tests_of(path)}) or ROOMS
    num_workers = "auto" if asked == ROOMS else "0"  # they take seconds to start
    session.run("pytest", "-q", "-n", num_workers, *asked, env={"TEST_PROFILE": "quick"})


PEERS = ("beir", "fastreid", "lightly", "lvis", "open-metric-learning", "reid", "rfdetr", "speechbrain", "torchreid")
"""packages of which tests import single files; they want torchvision, OpenCV and older NumPy, which these do not use"""


@nox.session
def nightly(session: nox.Session) -> None:
    """New examples of every test, the fuzzers, and mutants of a room; `-- SEED` draws again what another night drew.

    Everything that a test may need is installed: a skip is a failure.
    """
    install(session)
    if session.virtualenv.is_sandboxed:  # in their newest versions, which the pins of others would forbid
        session.install("--group", "nightly", "--group", "docs")
        session.install("--no-deps", *PEERS)
    seed = int(session.posargs[0]) if session.posargs else int(datetime.now(tz=timezone.utc).strftime("%Y%m%d"))
    session.log(f"seed {seed}")
    env = {"TEST_PROFILE": "nightly"}
    others = "--ignore=tests/writers", "--ignore=tests/search_engines"  # pinned packages, which have their own sessions
    session.run("pytest", "-n", "auto", *others, f"--hypothesis-seed={seed}", *session.posargs[1:], env=env)
    fuzzers = {"coco": 3000, "lvis": 1000, "warnings": 300, "coco_files": 300, "files": 1000}
    for fuzzer, problems in fuzzers.items():
        session.run("python", "-m", f"tests.fuzz_{fuzzer}", str(problems), str(seed))
    rooms = sorted({str(path.parent.relative_to("tests")) for path in Path("tests/functional").glob("*/*/test_*.py")})
    session.run("python", "-m", "tests.mutants", rooms[seed % len(rooms)], "--seed", str(seed))


@nox.session
def writers(session: nox.Session) -> None:
    """Files that other tools write, in pinned versions: right numbers, or errors that name the cause. Once a night."""
    if session.virtualenv.is_sandboxed:
        session.install("-e", ".[files]", "--group", "test", "--group", "writers")
        session.install("--no-deps", "ultralytics==8.4.190")  # it asks for torchvision, which its results do not use
    env = {"TEST_PROFILE": "nightly", "FIFTYONE_DO_NOT_TRACK": "1", "YOLO_OFFLINE": "1"}
    for module in session.posargs or sorted(map(str, Path("tests/writers").glob("test_*.py"))):
        session.run("pytest", module, env=env)  # in processes of their own: one tool breaks pandas for the next


@nox.session
def search_engines(session: nox.Session) -> None:
    """Lists of search engines, in the versions of the page: their calls, numbers, ties and padding. Once a night."""
    if session.virtualenv.is_sandboxed:
        session.install("-e", ".", "--group", "test", "--group", "search_engines")
    session.run("pytest", *(session.posargs or ["tests/search_engines"]), env={"TEST_PROFILE": "nightly"})


@nox.session
def findings(session: nox.Session) -> None:
    """Scripts that show how public packages behave; each installs them anew, so a network is needed."""
    for script in session.posargs or sorted(map(str, Path("findings").glob("*.sh"))):
        session.run("bash", script, external=True)


@nox.session
def wheel(session: nox.Session) -> None:
    """The suite against the built wheel: nothing of src/ is on the path."""
    install(session, "build")
    built = build(session, Path(session.create_tmp()))
    install(session, f"{built}[example]", "--group", "test")
    sandboxed = session.virtualenv.is_sandboxed
    env = {} if sandboxed else unpack(session, built)
    check_place(session, session.virtualenv.location if sandboxed else env["PYTHONPATH"], env)
    session.run("python", "-m", "pytest", "-n", "auto", *(session.posargs or ["tests"]), env=env)
    doctests(session, env)


@nox.session
def core(session: nox.Session) -> None:
    """The wheel without extras: modules that import none of them are imported, and their examples run."""
    install(session, "build", "pytest")
    install(session, str(build(session, Path(session.create_tmp()))))
    session.chdir(session.create_tmp())
    options = ("--doctest-modules", "--doctest-ignore-import-errors", "-W", "error", "-k", "not pictures")
    session.run("pytest", "-q", *options, "--pyargs", "reid_torchmetrics")


@nox.session(python="3.10")
def lowest(session: nox.Session) -> None:
    """The suite with the lowest versions that pyproject.toml promises, on the lowest Python."""
    install(session, "-e", ".[example]", "--group", "test", constraints="constraints-lowest.txt")
    session.run("pytest", "-n", "auto", *session.posargs)


@nox.session
def torchmetrics_main(session: nox.Session) -> None:
    """The metrics with the next TorchMetrics: they rest on hooks of it that are not public."""
    install(session)
    install(session, "--force-reinstall", "--no-deps", GIT_TORCHMETRICS)
    session.run("pytest", "-n", "auto", *(session.posargs or ["tests/metrics", "tests/distributed"]))


@nox.session
def benchmarks(session: nox.Session) -> None:
    """All claims of `benchmarks/`, in half an hour; `RECORD=1` writes RESULTS.md. Wants an idle machine."""
    install(session)
    install(session, "--group", "bench")
    failed = []
    for script in sorted(Path("benchmarks").glob("*.py")):
        try:
            session.run("python", str(script))
        except CommandFailed:  # noqa: PERF203 - the others are run, too
            failed.append(script.stem)
    if failed:
        session.error(f"claims fail in {', '.join(failed)}")
