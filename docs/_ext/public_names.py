"""Names of the package, in the reference and in code on the pages: what they link to, and what is left out.

Docstrings are written for readers of the source: a name or a value stands in single backticks. On the site it links to
where a public name is documented, and is shown as code elsewhere. Annotations name a class by the module that defines
it; they link to the public name. Pages are written for the clone, where a name in backticks is code and nothing else.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from docutils import nodes
from reference_pages import documented_names, find_meant, names_of_definitions
from sphinx.addnodes import desc_signature, pending_xref
from sphinx.pycode import ModuleAnalyzer

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

_COLON = "\ue000"
_CODE = re.compile(r"(?<![`:\w])(``.+?``|`[^`<>]+?`)(?![`\w_])")
_NAME_OR_CALL = re.compile(r"([A-Za-z_][\w.]*)(\(.*\))?", re.DOTALL)


def _hide_colons(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Before a colon napoleon would take the first words of a field's docstring for its type."""
    if what in {"attribute", "property", "data"}:
        lines[:] = [line.replace(":", _COLON) for line in lines]


def _link_names(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Make links of public names in backticks, and code of everything else in backticks."""
    if what == "data":
        lines[:] = about_value(name.rpartition(".")[2], thing)
    if lines and lines[0].startswith("Alias for field number"):
        lines.clear()
    arguments = set(inspect.signature(thing).parameters) if what in {"function", "method", "class"} else set()

    def linked(match: re.Match[str]) -> str:
        text = match[0].strip("`")
        target = None if text in arguments else find_meant(text.removesuffix("(...)"), seen_from=name)
        is_itself = target is not None and f"{name}.".startswith(f"{target}.")
        return f":py:obj:`{text} <{target}>`" if target and not is_itself else f"``{text}``"

    is_example = False
    for number, line in enumerate(lines):
        is_example = bool(line.strip()) and (is_example or line.lstrip().startswith(">>>"))
        parts = [] if is_example else _CODE.split(line.replace(_COLON, ":"))
        said = "".join(_CODE.sub(linked, part) if part[:1] == "`" else _escaped(part) for part in parts)
        lines[number] = said if parts else line


def _escaped(text: str) -> str:
    """|x| is an absolute value, not a substitution."""
    return text.replace("|", r"\|")


def about_value(name: str, value: Any) -> list[str]:
    """What stands below the value where it is defined, and what it holds."""
    modules = [(home, vars(module)) for home, module in sys.modules.items() if home.startswith("reid_torchmetrics.")]
    homes = [home for home, names in modules if names.get(name) is value]
    said = [docs for home in homes if (docs := ModuleAnalyzer.for_module(home).find_attr_docs().get(("", name)))]
    return [*(said[0] if said else ()), "", _contents(value), ""]


def _contents(value: Any) -> str:
    if isinstance(value, Mapping):
        return "Keys: " + ", ".join(f"``{key!r}``" for key in value) + "."
    return f"Value: ``{value!r}``."


def _show_public_bases(app: Sphinx, name: str, thing: Any, options: Any, bases: list[type]) -> None:
    """Instead of a base that is not public the next that is, or one of another project."""
    public = (base for base in thing.__mro__[1:] if (base.__module__, base.__qualname__) in names_of_definitions())
    foreign = (base for base in thing.__mro__[1:] if not base.__module__.startswith("reid_torchmetrics"))
    bases[:] = [next(public, None) or next(foreign)]


def _resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, shown: nodes.TextElement) -> Any:
    """Link a definition to its documented name, and a member that is not listed to its class; else leave text."""
    if node.get("refdomain") != "py":
        return None
    owner, _, name = node["reftarget"].rpartition(".")
    documented = names_of_definitions().get((owner, name)) or (owner if owner in documented_names() else None)
    if documented is None:
        return shown
    return env.domains.python_domain.resolve_xref(env, node["refdoc"], app.builder, "obj", documented, node, shown)


def _finish_page(app: Sphinx, document: nodes.document) -> None:
    """Link names and calls in code; list methods beside a page, and not fields, of which there are too many."""
    docname = app.env.docname
    for code in [*document.findall(nodes.literal)]:
        named = _NAME_OR_CALL.fullmatch(code.astext())
        target = named and find_meant(named[1], seen_from=f".{docname.replace('/', '.')}.")
        if target and not _is_linked_or_title(code):
            link = pending_xref("", refdomain="py", reftype="obj", reftarget=target, refdoc=docname, refexplicit=True)
            code.parent.replace(code, link)
            link += code
    for signature in document.findall(desc_signature):
        if signature.parent["objtype"] == "attribute":
            signature["_toc_name"] = ""


def _is_linked_or_title(code: nodes.Node) -> bool:
    kinds = (nodes.reference, pending_xref, nodes.title)
    return isinstance(code.parent, kinds) or isinstance(code.parent.parent, kinds)


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen to what autodoc finds, to pages that were read and to links that lead nowhere."""
    app.connect("autodoc-process-docstring", _hide_colons, priority=100)
    app.connect("autodoc-process-docstring", _link_names, priority=900)  # napoleon has made the sections
    app.connect("autodoc-process-bases", _show_public_bases)
    app.connect("doctree-read", _finish_page, priority=100)  # before the contents are collected
    app.connect("missing-reference", _resolve, priority=900)  # intersphinx has tried
    return {"parallel_read_safe": True, "parallel_write_safe": True}
