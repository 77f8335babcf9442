"""What the stubs say is what `help()` says."""

import ast
import inspect
import pathlib

import tussle

STUBS = ast.parse((pathlib.Path(__file__).parents[1] / "tussle/_tussle.pyi").read_text())
DEFINED = (ast.FunctionDef, ast.ClassDef)


def documented(body, owner):
    for node in body:
        # Python words the slots of operators itself.
        if isinstance(node, DEFINED) and (not node.name.startswith("__") or "arrow" in node.name):
            yield owner, node
            if isinstance(node, ast.ClassDef) and node.name != "Error":
                yield from documented(node.body, getattr(owner, node.name))


def test_docstrings():
    seen = 0
    for owner, node in documented(STUBS.body, tussle):
        said, written = getattr(owner, node.name).__doc__, ast.get_docstring(node)
        if node.name != "Error":
            assert inspect.cleandoc(said or "") == written, node.name
        assert written, node.name
        seen += 1
    assert seen > 60


def test_everything_public_is_in_the_stubs():
    known = {n.name for n in STUBS.body if isinstance(n, DEFINED)} | {"__version__"}
    assert set(tussle.__all__) == known
    for cls in [n for n in STUBS.body if isinstance(n, ast.ClassDef) and n.name != "Error"]:
        stubs = {n.name for n in cls.body if isinstance(n, ast.FunctionDef)}
        there = {n for n in vars(getattr(tussle, cls.name)) if not n.startswith("__")}
        assert there <= stubs, cls.name


def test_signatures_are_those_of_the_stubs():
    for node in [n for n in STUBS.body if isinstance(n, ast.FunctionDef)]:
        want = [a.arg for a in node.args.posonlyargs + node.args.args + node.args.kwonlyargs]
        assert list(inspect.signature(getattr(tussle, node.name)).parameters) == want, node.name
