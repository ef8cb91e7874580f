"""Where the examples log to, and what they say where they cannot."""

import sys
from argparse import Namespace
from pathlib import Path

import pytest

pytest.importorskip("lightning")
loggers = pytest.importorskip("loggers")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder without an API key."""
    for name in ("WANDB_API_KEY", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    return tmp_path


def test_weights_and_biases_that_is_not_installed_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(SystemExit) as raised:
        loggers.make_logger(Namespace(wandb=True, output=tmp_path))
    assert raised.value.code == "`--wandb` needs Weights & Biases: pip install wandb"


def test_without_a_key_a_run_is_offline_and_a_command_uploads_it(home: Path) -> None:
    assert not loggers.has_wandb_key()
    (home / ".netrc").write_text("machine example.org login user password x", encoding="utf-8")
    assert not loggers.has_wandb_key()
    assert loggers.how_to_look(Namespace(wandb=True, output="here")) == "wandb sync here/wandb/offline-run-*"


@pytest.mark.parametrize("file", [".netrc", "_netrc", None])
def test_a_key_is_found_where_the_login_puts_it_or_in_the_environment(
    home: Path, monkeypatch: pytest.MonkeyPatch, file: str | None
) -> None:
    if file is None:
        monkeypatch.setenv("WANDB_API_KEY", "x")
    else:
        (home / file).write_text("machine api.wandb.ai\n  login user\n  password x\n", encoding="utf-8")
    assert loggers.has_wandb_key()
    assert loggers.how_to_look(Namespace(wandb=True, output="here")) == "at https://wandb.ai"
