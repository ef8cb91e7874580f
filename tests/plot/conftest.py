"""What tests of pictures by Pillow look at."""

import matplotlib as mpl
import pytest

from reid_torchmetrics.plot import canvas

mpl.use("Agg")


@pytest.fixture
def written(monkeypatch) -> list[str]:
    """The texts that are written."""
    texts: list[str] = []
    write = canvas.Canvas.text

    def text(self, corner, text, *rest) -> None:
        texts.append(text)
        write(self, corner, text, *rest)

    monkeypatch.setattr(canvas.Canvas, "text", text)
    return texts
