"""Runs what CI runs: `nox` for everything, `nox -s lint` for a part, `--no-venv` in an environment that has it all."""

import nox

nox.options.sessions = ["lint", "types", "docs", "package", "tests"]


def install(session: nox.Session) -> None:
    """The development environment, in the versions that the project is tested with."""
    if session.virtualenv.is_sandboxed:
        session.install("-c", "constraints.txt", "-e", ".[dev]")


@nox.session
def lint(session: nox.Session) -> None:
    """Lint and formatting."""
    install(session)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Types of the package."""
    install(session)
    session.run("mypy")


def build_site(session: nox.Session, builder: str, *options: str) -> None:
    """Build the site in `docs/_build`; a warning is an error, and so is a link that leads nowhere."""
    if session.virtualenv.is_sandboxed:
        session.install("-c", "constraints.txt", "-e", ".[dev,docs]")
    session.run("sphinx-build", "-b", builder, "-n", "-W", "--keep-going", *options, "docs", f"docs/_build/{builder}")


@nox.session
def docs(session: nox.Session) -> None:
    """The site; the scripts of its gallery are run."""
    build_site(session, "html", *session.posargs)


@nox.session
def links(session: nox.Session) -> None:
    """Links of the site to other sites. Wants a network."""
    build_site(session, "linkcheck", "-D", "plot_gallery=0")


@nox.session
def package(session: nox.Session) -> None:
    """Source distribution and wheel."""
    install(session)
    session.run("python", "-m", "build", "--outdir", session.create_tmp())


@nox.session
def tests(session: nox.Session) -> None:
    """The suite."""
    install(session)
    session.run("pytest", "-n", "auto", *session.posargs)


@nox.session
def benchmarks(session: nox.Session) -> None:
    """The claims of `benchmarks/`; each script exits with 1 if one fails. Wants an idle machine."""
    install(session)
    if session.virtualenv.is_sandboxed:
        session.install("-c", "constraints.txt", "-e", ".[bench]")
    for script in (
        *("ranking_speed", "shared_machine", "peak_memory", "step_cost", "device_waits", "distributed_cost"),
        *("detection_speed", "detection_shapes", "detection_masks", "detection_memory", "detection_scaling"),
        "detection_collectives",
    ):
        session.run("python", f"benchmarks/{script}.py")
