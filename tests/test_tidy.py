"""The house, checked: sizes, docstrings, and things that no linter knows of.

Sizes are those of CONTRIBUTING.md. A function is measured from `def` to its last line without its
docstring; a test's body without the docstring and without the signature. Docstrings do not count in
the median of the source files either, for a layout at the top of a file must not cost anything.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles

import pytest

ROOT = Path(__file__).parent.parent
SOURCE_FOLDERS = ("sparklog", "pyspark_sparklog", "api", "jobs", "bench", "examples", "scripts")
TEXT_SUFFIXES = {".py", ".md", ".toml", ".sh", ".json", ".txt", ".yml", ""}
CODE_BLOCK = re.compile(r"```.*?```", re.DOTALL)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = Function | ast.ClassDef


def python_files(*folders: str) -> list[Path]:
    found = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return sorted(path for path in found if path.read_text(encoding="utf-8").strip())


def text_files() -> Iterator[Path]:
    """Everything that is committed as text; caches, environments and Git's own files are not."""
    skipped = {".venv", ".git", ".cache", "build", "dist", "__pycache__", "sparklog-data"}
    for path in sorted(ROOT.rglob("*")):
        parts = set(path.relative_to(ROOT).parts)
        hidden = any(part.startswith(".") and part != ".ci" for part in parts)
        if path.is_file() and path.suffix in TEXT_SUFFIXES and not (hidden or parts & skipped):
            yield path


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    prose = CODE_BLOCK.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"(?m)^#+ (.+)$", prose)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


def line_count(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def docstring_lines(node: ast.AST) -> int:
    if not isinstance(node, Documented | ast.Module) or not ast.get_docstring(node):
        return 0
    return (node.body[0].end_lineno or 0) - node.body[0].lineno + 1


def plain_line_count(path: Path) -> int:
    return line_count(path) - sum(map(docstring_lines, ast.walk(tree_of(path))))


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def functions_of(path: Path) -> list[Function]:
    return [node for node in ast.walk(tree_of(path)) if isinstance(node, FUNCTIONS)]


def statements_of(function: Function) -> list[ast.stmt]:
    """The body without the docstring; a function that is all docstring has one empty line left."""
    return function.body[1:] if ast.get_docstring(function) else function.body


def function_lines(function: Function) -> int:
    return (function.end_lineno or 0) - function.lineno + 1 - docstring_lines(function)


def body_lines(function: Function) -> int:
    body = statements_of(function)
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def cases_of(path: Path) -> list[Function]:
    return [function for function in functions_of(path) if function.name.startswith("test_")]


def matches(pattern: str, paths: list[Path]) -> list[str]:
    """`file:line` of every line that `pattern` is found in."""
    return [
        f"{name_of(path)}:{number}"
        for path in paths
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(pattern, line)
    ]


SOURCES = python_files(*SOURCE_FOLDERS)
LIBRARY = python_files("sparklog")
TESTS = python_files("tests")


class TestSizes:
    def test_a_source_file_has_at_most_400_lines(self) -> None:
        assert {name_of(path): n for path in SOURCES if (n := line_count(path)) > 400} == {}

    def test_half_of_the_source_files_have_at_most_120_lines_without_docstrings(self) -> None:
        assert median(plain_line_count(path) for path in SOURCES) <= 120

    def test_a_folder_has_at_most_3000_lines(self) -> None:
        folders = {path.parent for path in LIBRARY}
        sizes = {name_of(f): sum(map(line_count, f.glob("*.py"))) for f in sorted(folders)}
        assert {folder: n for folder, n in sizes.items() if n > 3000} == {}

    def test_a_test_file_has_at_most_600_lines(self) -> None:
        assert {name_of(path): n for path in TESTS if (n := line_count(path)) > 600} == {}

    def test_half_of_the_test_files_have_at_most_200_lines(self) -> None:
        assert median(line_count(path) for path in TESTS) <= 200

    def test_a_function_has_at_most_60_lines(self) -> None:
        long = {
            f"{name_of(path)}:{function.lineno} {function.name}": function_lines(function)
            for path in SOURCES + TESTS
            for function in functions_of(path)
            if function_lines(function) > 60
        }

        assert long == {}

    def test_functions_are_short_as_a_rule(self) -> None:
        bodies = [body_lines(function) for path in LIBRARY for function in functions_of(path)]

        assert median(bodies) <= 8
        assert quantiles(bodies, n=10)[8] <= 30

    def test_a_test_has_at_most_40_lines(self) -> None:
        long = {
            f"{name_of(path)}:{test.lineno} {test.name}": body_lines(test)
            for path in TESTS
            for test in cases_of(path)
            if body_lines(test) > 40
        }

        assert long == {}

    def test_tests_are_short_as_a_rule(self) -> None:
        bodies = [body_lines(test) for path in TESTS for test in cases_of(path)]

        assert median(bodies) <= 8
        assert quantiles(bodies, n=10)[8] <= 20


class TestDocstrings:
    def test_every_module_opens_with_one(self) -> None:
        assert [name_of(path) for path in SOURCES if not ast.get_docstring(tree_of(path))] == []

    def test_every_public_function_and_class_has_one(self) -> None:
        """A method may leave it out when a method of the same name says it: its protocol's."""
        public = {path: list(public_nodes(tree_of(path))) for path in LIBRARY}
        said = {
            node.name for nodes in public.values() for node, _ in nodes if ast.get_docstring(node)
        }

        missing = [
            f"{name_of(path)}:{node.lineno} {node.name}"
            for path, nodes in public.items()
            for node, is_method in nodes
            if not ast.get_docstring(node) and not (is_method and node.name in said)
        ]

        assert missing == []


def public_nodes(tree: ast.Module) -> Iterator[tuple[Documented, bool]]:
    """Public functions and classes of a module, public methods of its public classes."""
    for node in tree.body:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and not node.name.startswith("_"):
            yield node, False
            members = node.body if isinstance(node, ast.ClassDef) else []
            for member in members:
                if isinstance(member, FUNCTIONS) and not member.name.startswith("_"):
                    yield member, True


class TestForbidden:
    def test_no_builtin_hash(self) -> None:
        """It differs from process to process, and so from task to task."""
        calls = [
            f"{name_of(path)}:{node.lineno}"
            for path in SOURCES
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "hash"
        ]

        assert calls == []

    def test_no_clock_outside_clock_py(self) -> None:
        library = [path for path in LIBRARY if path.name != "clock.py"]

        assert matches(r"\btime\.time(_ns)?\(|\bdatetime\.(now|utcnow|today)\(", library) == []

    def test_no_path_of_somebodys_machine(self) -> None:
        assert matches(r"(?<![\w.])/(work|home|root|Users)/\w", list(text_files())) == []

    def test_no_host_of_a_package_registry(self) -> None:
        hosts = r"\b(pypi\.or[g]|pythonhosted\.or[g]|maven\.or[g]|npmjs\.or[g]|crates\.i[o])\b"

        assert matches(hosts, list(text_files())) == []

    def test_nothing_is_left_for_later(self) -> None:
        assert matches(r"\b(TOD[O]|FIXM[E]|XX[X]|NotImplementedErro[r])\b", SOURCES + TESTS) == []

    def test_an_ignored_rule_has_its_reason(self) -> None:
        ignores = r"# (noq[a]|type: ignor[e])"
        reasoned = r"# (noq[a]: [A-Z0-9, ]+|type: ignor[e]\[[\w, -]+\]) +[-#]* *\w+"

        files = SOURCES + TESTS
        assert set(matches(ignores, files)) - set(matches(reasoned, files)) == set()


class TestEntrance:
    @pytest.mark.parametrize("command", ["make quickstart", "make test"])
    def test_the_readme_names_the_command(self, command: str) -> None:
        assert command in (ROOT / "README.md").read_text(encoding="utf-8")

    def test_a_line_of_prose_has_at_most_120_characters(self) -> None:
        """Tables and code blocks may be wider."""
        long = [
            f"{name_of(page)}: {line}"
            for page in text_files()
            if page.suffix == ".md"
            for line in CODE_BLOCK.sub("", page.read_text(encoding="utf-8")).splitlines()
            if len(line) > 120 and not line.startswith("|")
        ]

        assert long == []

    def test_links_lead_somewhere(self) -> None:
        dead = [
            f"{name_of(page)}: {link}"
            for page in text_files()
            if page.suffix == ".md"
            for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
            if not (page.parent / link).exists()
        ]

        assert dead == []

    def test_an_anchor_is_a_heading_of_its_page(self) -> None:
        dead = [
            f"{name_of(page)}: {link}#{anchor}"
            for page in text_files()
            if page.suffix == ".md"
            for link, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text("utf-8"))
            if anchor not in anchors_of(page.parent / link if link else page)
        ]

        assert dead == []

    def test_the_readme_has_the_layers_that_are_checked(self) -> None:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        contracts = project["tool"]["importlinter"]["contracts"]
        [layers] = [one["layers"] for one in contracts if one["name"] == "Layers inside sparklog"]
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        told = readme.partition("only from layers after it: ")[2].partition(". `lint-imports`")[0]

        assert re.findall(r"`([^`]*)`", " ".join(told.split())) == layers

    def test_help_lists_every_target_of_the_makefile(self) -> None:
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        documented = re.findall(r"^([a-z]+):.*## \w", makefile, re.MULTILINE)
        phony = re.search(r"^\.PHONY: (help .*)$", makefile, re.MULTILINE)

        assert phony is not None
        assert documented == phony.group(1).split()

    def test_every_marker_in_use_is_declared(self) -> None:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        lines = project["tool"]["pytest"]["ini_options"]["markers"]
        declared = {line.partition(":")[0] for line in lines}
        text = "".join(path.read_text(encoding="utf-8") for path in TESTS)
        builtin = {"parametrize", "usefixtures", "filterwarnings", "skipif", "xfail", "skip"}

        assert set(re.findall(r"pytest\.mark\.(\w+)", text)) - builtin <= declared
