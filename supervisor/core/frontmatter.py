"""Agents in the front matter of a Markdown file such as AGENTS.md.

A block is YAML between two lines of three hyphens, with the `name` of an agent and its `tools`; there may be
several, with text between them. Markdown draws rules with hyphens too, so only what looks like a block is
taken for one, and never what stands in a code sample. A wrong block costs that block and is reported.

Patterns start with `*` and `!`, which YAML reserves for aliases and tags. Both are of no use here, and
aliases are how small YAML becomes enormous: so neither exists, and `tools: [*, !web_*]` means what it says.
The YAML is composed into nodes and never constructed into objects.

Importing this module loads PyYAML: do so when there is a file to read.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from typing_extensions import override
from yaml import SafeLoader
from yaml.error import Mark, MarkedYAMLError, YAMLError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.scanner import ScannerError

from supervisor.core.agents import Agent, FrontMatter, check_pattern
from supervisor.core.problems import Notice, Path, Problem, dotted

MAX_BYTES = 1024 * 1024
"""How large the file may be."""
MAX_LENGTH = 64 * 1024
"""How many characters all blocks may have together; the daemon waits while they are read."""
MAX_DEPTH = 50
"""How deep the lists and objects of a block may nest."""

_FENCE = re.compile(r"---\s*")
_CODE = re.compile(r" {0,3}(?P<mark>`{3,}(?=[^`]*$)|~{3,})")
_ANY_KEY = re.compile(r"""[ ]*["']?[\w.-]+["']?[ ]*:(\s|$)""")
_OUR_KEY = re.compile(r"""[ ]*["']?(name|tools)["']?[ ]*:(\s|$)""")
_KINDS = {
    "tag:yaml.org,2002:null": "null",
    "tag:yaml.org,2002:bool": "true or false",
    "tag:yaml.org,2002:int": "a number",
    "tag:yaml.org,2002:float": "a number",
    "tag:yaml.org,2002:timestamp": "a date",
}
"""The scalars that YAML takes for something other than a string."""


def read_agents(content: bytes, *, file: str, taken: Mapping[str, str]) -> FrontMatter:
    """The agents of the file.

    `taken` says which agents the configuration describes, and in which file; there it wins.
    """
    if len(content) > MAX_BYTES:
        reason = f"the file is larger than {MAX_BYTES} bytes; make it smaller"
        return FrontMatter({}, (Problem(file, "", reason),))
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return FrontMatter({}, (Problem(file, "", "the text is not UTF-8; save it as UTF-8", line),))
    gathering = _Gathering(file, taken)
    left = MAX_LENGTH
    for block in _blocks(text.split("\n")):
        left -= len(block.text)
        if left < 0:
            gathering.refuse_rest(block)
            break
        gathering.add(block)
    return FrontMatter(gathering.agents, tuple(gathering.problems), tuple(gathering.notices))


# Where the blocks are.


@dataclass(frozen=True, slots=True)
class _Block:
    fence: int
    """The line of the opening hyphens, counted from 0."""
    lines: Sequence[str]
    closed: bool

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def end(self) -> int:
        """The line of the closing hyphens, counted from 0."""
        return self.fence + 1 + len(self.lines)


def _blocks(lines: Sequence[str]) -> Iterator[_Block]:
    """Everything that is meant as a block; the hyphens that close one may open the next."""
    start = next((number for number, line in enumerate(lines) if line.strip()), 0)
    here, code = start, ""
    while here < len(lines):
        if not code and _FENCE.fullmatch(lines[here]):
            block = _block_at(here, lines)
            if _is_meant(block, opens_file=here == start):
                yield block
                here = block.end
                continue
        code = _code_after(lines[here], code)
        here += 1


def _block_at(fence: int, lines: Sequence[str]) -> _Block:
    for number in range(fence + 1, len(lines)):
        if _FENCE.fullmatch(lines[number]):
            return _Block(fence, lines[fence + 1 : number], closed=True)
    return _Block(fence, lines[fence + 1 :], closed=False)


def _is_meant(block: _Block, *, opens_file: bool) -> bool:
    """Whether it is no mere text between two rules: it begins with a key and has one of ours."""
    if opens_file and block.closed:
        return True
    meaningful = (line for line in block.lines if line.strip() and not line.lstrip().startswith("#"))
    begins_with_key = _ANY_KEY.match(next(meaningful, "")) is not None
    return begins_with_key and any(map(_OUR_KEY.match, block.lines))


def _code_after(line: str, code: str) -> str:
    """The mark of the code sample that is open after this line, or nothing."""
    if code:
        closes = line.strip().startswith(code) and not line.strip().strip(code[0])
        return "" if closes else code
    opening = _CODE.match(line)
    return opening["mark"] if opening else ""


# What they say.


class _Gathering:
    """Gathers the agents of one file and everything that is wrong with its blocks."""

    def __init__(self, file: str, taken: Mapping[str, str]) -> None:
        self.agents: dict[str, Agent] = {}
        self.problems: list[Problem] = []
        self.notices: list[Notice] = []
        self._file, self._taken = file, taken
        self._lines: dict[str, int] = {}

    def add(self, block: _Block) -> None:
        reading = _Reading(block, self._file)
        agent = reading.agent()
        self.problems += reading.problems
        if agent is None:
            return
        line = reading.line_of_name
        if agent.name in self._lines:
            reason = f"is the name of the agent in line {self._lines[agent.name]} too; rename or remove one"
            self.problems.append(Problem(self._file, "name", reason, line))
            return
        self._lines[agent.name] = line
        if agent.name in self._taken:
            winner = self._taken[agent.name]
            reason = f"the agent {agent.name!r} is ignored: {winner} describes it too, and wins"
            self.notices.append(Notice(self._file, "", reason, line))
        else:
            self.agents[agent.name] = agent

    def refuse_rest(self, block: _Block) -> None:
        reason = f"the blocks have more than {MAX_LENGTH} characters in all; from here on they are ignored"
        self.problems.append(Problem(self._file, "", reason, block.fence + 1))


class _Loader(SafeLoader):
    """YAML without aliases and tags, where a leading star or exclamation mark is text; and without depth."""

    @override
    def fetch_alias(self) -> None:
        self.fetch_plain()

    @override
    def fetch_tag(self) -> None:
        self.fetch_plain()

    @override
    def fetch_more_tokens(self) -> None:
        # Composing recurses, and scanning takes time quadratic in the depth.
        if self.flow_level + len(self.indents) > MAX_DEPTH:
            reason = f"more than {MAX_DEPTH} lists or objects lie in one another"
            raise ScannerError(problem=reason, problem_mark=self.get_mark())
        super().fetch_more_tokens()


class _Reading:
    """Reads one block and gathers everything that is wrong with it."""

    def __init__(self, block: _Block, file: str) -> None:
        self.problems: list[Problem] = []
        self.line_of_name = block.fence + 1
        self._block, self._file = block, file

    def agent(self) -> Agent | None:
        """The agent of the block; None when it has none, or when something is wrong."""
        keys = self._keys(self._root())
        if not keys:
            return None
        name = self._name(keys.get("name"))
        patterns = self._patterns(keys.get("tools"))
        return None if self.problems else Agent(name, patterns, self._file)

    def _root(self) -> Node | None:
        if not self._block.closed:
            self._refuse("the block is never closed; end it with a line ---")
            return None
        try:
            return _Loader(self._block.text).get_single_node()
        except MarkedYAMLError as error:
            self._refuse(f"the block is not YAML: {error.problem}", mark=error.problem_mark)
        except YAMLError as error:
            self._refuse(f"the block is not YAML: {str(error).splitlines()[0]}")
        return None

    def _keys(self, root: Node | None) -> dict[str, Node]:
        """The keys that matter here; all others are for other programs."""
        if root is None:
            return {}
        if not isinstance(root, MappingNode):
            self._refuse("the block must hold keys such as name and tools", node=root)
            return {}
        found: dict[str, Node] = {}
        pairs: list[tuple[Node, Node]] = root.value
        for key, value in pairs:
            if key.value not in ("name", "tools"):
                continue
            if key.value in found:
                self._refuse("occurs twice in one block; remove one", path=(key.value,), node=key)
            found[key.value] = value
        return found

    def _name(self, node: Node | None) -> str:
        if node is None:
            self._refuse("is missing: a block with tools needs the name of its agent", path=("name",))
            return ""
        self.line_of_name = self._line(node)
        name = self._string(node, ("name",))
        if name is not None and not name.strip():
            self._refuse("must not be empty", path=("name",), node=node)
        return name or ""

    def _patterns(self, node: Node | None) -> tuple[str, ...]:
        """The patterns of `tools`; an agent without that key has all tools."""
        if node is None:
            return ("*",)
        if isinstance(node, SequenceNode):
            items: list[Node] = node.value
            return tuple(self._pattern(item, ("tools", place)) for place, item in enumerate(items))
        # Other programs write several names as one string; no name of a tool has a comma.
        text = self._string(node, ("tools",), wanted="a pattern or a list of patterns")
        return () if text is None else tuple(self._checked(part.strip(), node) for part in text.split(","))

    def _pattern(self, node: Node, path: Path) -> str:
        text = self._string(node, path)
        return "" if text is None else self._checked(text, node, path)

    def _checked(self, pattern: str, node: Node, path: Path = ("tools",)) -> str:
        try:
            check_pattern(pattern)
        except ValueError as error:
            self._refuse(str(error), path=path, node=node)
        return pattern

    def _string(self, node: Node, path: Path, *, wanted: str = "a string") -> str | None:
        kind = _kind(node)
        if kind is None:
            return str(node.value)
        remedy = "; put it in quotes" if isinstance(node, ScalarNode) and node.value else ""
        self._refuse(f"must be {wanted}, not {kind}{remedy}", path=path, node=node)
        return None

    def _line(self, node: Node) -> int:
        return self._block.fence + 2 + node.start_mark.line

    def _refuse(
        self, message: str, *, path: Path = (), node: Node | None = None, mark: Mark | None = None
    ) -> None:
        """Report a problem where the node or the mark is; without either, at the start of the block."""
        mark = node.start_mark if node is not None else mark
        line, column = self._block.fence + 1, None
        if mark is not None:
            line, column = line + 1 + mark.line, mark.column + 1
        self.problems.append(Problem(self._file, dotted(path), message, line, column))


def _kind(node: Node) -> str | None:
    """What the node is, with its article, when it is no string."""
    match node:
        case ScalarNode():
            return _KINDS.get(node.tag)
        case SequenceNode():
            return "a list"
        case _:
            return "an object"
