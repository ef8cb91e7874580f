"""Figures and pictures as parts of the page itself."""

from __future__ import annotations

import base64
import io
import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import numpy as np
from numpy.typing import NDArray

from reid_torchmetrics.report.elements import Html, element

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure
    from PIL.Image import Image

_QUALITY = 65  # of JPEG
_NO_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")  # letters of names, perhaps
_REFERENCE = re.compile(r"url\(#([^)]+)\)")


def figure(drawn: Figure | SubFigure, name: str, caption: str) -> Html:
    """A figure of Matplotlib as SVG, whose letters are text; `name` is its own on the page, and begins all its ids."""
    root = _svg(drawn)
    for each in root.iter():
        each.tag = _without_namespace(each.tag)
        each.attrib = {_without_namespace(key): _renamed(key, value, name) for key, value in each.attrib.items()}
    # A style inside would be the style of the whole page, which has it already.
    for definitions in root.findall("defs"):
        for style in definitions.findall("style"):
            definitions.remove(style)
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-labelledby": f"{name}-caption"}
    below = element("figcaption", caption, id=f"{name}-caption")
    return element("figure", Html(ET.tostring(root, encoding="unicode")), below)


def picture(pixels: Image | NDArray[np.uint8], alt: str, *, scale: float = 1.0) -> Html:
    """A picture, an array as [H, W, 3], as JPEG that the browser decodes and scales when the reader comes near."""
    from PIL import Image as ImageModule  # noqa: PLC0415 - not every evaluation has pictures

    image = ImageModule.fromarray(pixels) if isinstance(pixels, np.ndarray) else pixels
    file = io.BytesIO()
    image.save(file, format="JPEG", quality=_QUALITY, optimize=True)
    data = f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode('ascii')}"
    width, height = round(scale * image.width), round(scale * image.height)
    return element("img", src=data, alt=alt, width=width, height=height, loading="lazy")


def _svg(drawn: Figure | SubFigure) -> ET.Element:
    import matplotlib as mpl  # noqa: PLC0415 - a large import that evaluation does not need

    file = io.StringIO()
    whole: Any = drawn  # of our own axes, so it is no part of another figure
    # The salt stands for the random number that ids are made of; no metadata, for it has the date.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "reid_torchmetrics"}):
        whole.savefig(file, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return ET.fromstring(_NO_XML.sub("\N{REPLACEMENT CHARACTER}", file.getvalue()))  # noqa: S314 - written a line before


def _without_namespace(name: str) -> str:
    return name.rpartition("}")[2]


def _renamed(key: str, value: str, name: str) -> str:
    """The value of an attribute, where it is or names an id with `name` before it."""
    if key == "id":
        return f"{name}-{value}"
    if _without_namespace(key) == "href" and value.startswith("#"):
        return f"#{name}-{value[1:]}"
    return _REFERENCE.sub(rf"url(#{name}-\1)", value)
