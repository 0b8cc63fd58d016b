"""`completion`: prints a script by which a shell completes this command.

The scripts know nothing: they hand the words to `mcp-supervisor __complete`, which answers with candidates,
one on a line. So they stay right when verbs and servers change.
"""

from supervisor.cli.grammar import Options, Parser, Verb
from supervisor.errors import DONE

BASH = """\
_mcp_supervisor() {
    local candidate
    COMPREPLY=()
    while IFS= read -r candidate; do
        case $candidate in *[=/]) compopt -o nospace ;; esac
        COMPREPLY+=("$(printf %q "$candidate")")
    done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _mcp_supervisor mcp-supervisor
"""
ZSH = """\
#compdef mcp-supervisor
_mcp_supervisor() {
    local -a candidates open
    candidates=("${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    candidates=("${(@)candidates:#}")
    open=("${(@M)candidates:#*[=/]}")
    candidates=("${(@)candidates:#*[=/]}")
    (( ${#open} )) && compadd -S '' -a open
    (( ${#candidates} )) && compadd -a candidates
}
if [[ ${funcstack[1]} == _mcp-supervisor ]]; then
    _mcp_supervisor "$@"
else
    compdef _mcp_supervisor mcp-supervisor
fi
"""
FISH = """\
function __mcp_supervisor
    set -l before (commandline -opc)
    mcp-supervisor __complete $before[2..-1] (commandline -ct) 2>/dev/null
end
complete -c mcp-supervisor -f -a '(__mcp_supervisor)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def _declare(parser: Parser) -> None:
    parser.add_argument("shell", choices=tuple(SCRIPTS), metavar="SHELL", help="bash, zsh or fish")


def print_script(options: Options) -> int:
    """Print the script; the shell runs it."""
    print(SCRIPTS[options.shell], end="")
    return DONE


COMPLETION = Verb(
    "completion",
    "print a script that completes verbs, options, servers and tools in a shell",
    """\
  mcp-supervisor completion bash > \\
    ~/.local/share/bash-completion/completions/mcp-supervisor
  mcp-supervisor completion zsh > ~/.zfunc/_mcp-supervisor    (a place in fpath)
  mcp-supervisor completion fish > \\
    ~/.config/fish/completions/mcp-supervisor.fish
""",
    print_script,
    _declare,
)
