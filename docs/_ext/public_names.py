"""Names of the package in the reference: where they are documented, and what is left out.

Docstrings are written for readers of the source: a name or a value stands in single backticks. On the site it links to
where a public name is documented, and is shown as code elsewhere. Annotations name a class by the module that defines
it; they link to the public name.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.pycode import ModuleAnalyzer
from torchmetrics import Metric, MetricCollection

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

PAGES = Path(__file__).parents[1] / "reference"
_DIRECTIVE = re.compile(r"^\.\. auto(?:class|function|data|exception):: (\S+)$", re.MULTILINE)
_CODE_OR_NAME = re.compile(r"(?<![`:\w])(``.+?``|`[^`<>]+?`)(?![`\w_])")
KEPT = {"update", "compute", "reset", "plot"}
"""methods that are listed though TorchMetrics has them"""


def documented_names(pages: Iterable[Path]) -> list[str]:
    """The dotted names that pages document, in their order."""
    return [name for page in pages for name in _DIRECTIVE.findall(page.read_text(encoding="utf-8"))]


def find_object(name: str) -> Any:
    """The object of a dotted name."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


@cache
def _names_of_objects() -> dict[tuple[str, str], str]:
    """The documented name of classes and functions by the module and the name of their definition."""
    found = {}
    for name in documented_names(sorted(PAGES.rglob("*.md"))):
        thing = find_object(name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            found[thing.__module__, thing.__qualname__] = name
    return found


@cache
def _names_by_last_part() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in documented_names(sorted(PAGES.rglob("*.md"))):
        found.setdefault(name.rpartition(".")[2], []).append(name)
    return found


def _link_names(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Make links of public names in backticks, and code of everything else in backticks."""
    if what == "data":
        lines[:] = _about_value(name.rpartition(".")[2], thing)
    arguments = set(inspect.signature(thing).parameters) if what in {"function", "method", "class"} else set()

    def linked(match: re.Match[str]) -> str:
        if match[0].startswith("``"):
            return match[0]
        text = match[0][1:-1]
        target = None if text in arguments else _documented(text, seen_from=name)
        return f":py:obj:`{text} <{target}>`" if target else f"``{text}``"

    lines[:] = [_without_substitutions(_CODE_OR_NAME.sub(linked, line)) for line in lines]


def _without_substitutions(line: str) -> str:
    """|x| is an absolute value, not a substitution."""
    return "".join(part if part.startswith("`") else part.replace("|", r"\|") for part in re.split("(``.*?``)", line))


def _about_value(name: str, value: Any) -> list[str]:
    """What stands below the value where it is defined, and what it holds."""
    docs = (
        ModuleAnalyzer.for_module(module.__name__).find_attr_docs().get(("", name))
        for module in list(sys.modules.values())
        if module.__name__.startswith("reid_torchmetrics.") and vars(module).get(name) is value
    )
    said = [*next(filter(None, docs), [])]
    return [*said, "", _contents(value), ""]


def _contents(value: Any) -> str:
    if isinstance(value, Mapping):
        return "Keys: " + ", ".join(f"``{key!r}``" for key in value) + "."
    return f"Value: ``{value!r}``."


def _documented(text: str, *, seen_from: str) -> str | None:
    """The documented name that is meant by a part of it; of several the one in the same module."""
    found = _names_by_last_part().get(text.rpartition(".")[2], [])
    found = [name for name in found if name.endswith(text) and name != seen_from]
    near = [name for name in found if seen_from.startswith(name.rpartition(".")[0] + ".functional")]
    near = near or [name for name in found if seen_from.startswith(name.rpartition(".")[0])]
    chosen = found if len(found) == 1 else near
    return chosen[0] if chosen and not seen_from.startswith(chosen[0]) else None


def _skip(app: Sphinx, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what every metric has."""
    if name not in KEPT and (hasattr(Metric, name) or hasattr(MetricCollection, name)):
        return True
    return None


def _resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, shown: nodes.TextElement) -> Any:
    """Link the module of a definition to its documented name; leave text where there is no page."""
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    module, _, name = target.rpartition(".")
    documented = _names_of_objects().get((module, name))
    if documented:
        domain = env.domains.python_domain
        return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", documented, node, shown)
    return shown if " " in target or not _is_public(target) else None


def _is_public(target: str) -> bool:
    return any(target == name or target.startswith(f"{name}.") for name in _names_of_objects().values())


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen to what autodoc finds and to links that lead nowhere."""
    app.connect("autodoc-process-docstring", _link_names, priority=900)  # napoleon has made the sections
    app.connect("autodoc-skip-member", _skip)
    app.connect("missing-reference", _resolve, priority=900)  # intersphinx has tried
    return {"parallel_read_safe": True, "parallel_write_safe": True}
