"""Cases of the configuration, in the words of the kit: what happens to the file, and what must not follow."""

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from supervisor.errors import SupervisorError
from supervisor.selftest.case import BAD, INNOCENTS, Answer, Case, Check, Scene, Step
from supervisor.selftest.lab import PATIENCE, SETTINGS, Entry, hostile, until
from supervisor.selftest.promises import Promise
from supervisor.selftest.steps import call, note_pid, outcomes, problem, same_process, texts
from tests.e2e.support import fake
from tests.files import save

MORE = "more"
"""A server that some file has besides."""
SECRET = "canary-5e1d"


def document(
    scene: Scene, more: Mapping[str, Entry] = {}, *, without: str = "", settings: Mapping[str, Any] = {}
) -> str:
    """The configuration of the case, with this in it besides."""
    servers = {**INNOCENTS, **scene.servers, **more}
    servers.pop(without, None)
    return json.dumps({"mcpServers": servers, "supervisor": {**SETTINGS, **settings}})


def names(scene: Scene) -> set[str]:
    return {each["name"] for each in scene.lab.client.servers()}


def pid_of(scene: Scene, name: str) -> Any:
    return scene.lab.client.server(name)["pid"]


def settle(scene: Scene) -> None:
    until(scene.lab.settled)


def save_by_renaming(scene: Scene) -> None:
    """Save twice at once, three times; what was saved last is seen, though nobody asks for a reload."""
    for number in range(3):
        save(scene.lab.config, document(scene, {"never": hostile()}))
        save(scene.lab.config, document(scene, {f"{MORE}-{number}": hostile("polite")}))
        until(lambda: names(scene) == {*INNOCENTS, BAD, f"{MORE}-{number}"})  # noqa: B023 - it is asked here
    settle(scene)


def swap_a_volume(scene: Scene) -> None:
    """Have the file be a link into a volume of Kubernetes, and swap that for another."""
    home = scene.lab.directory
    for version, more in (("..1", {}), ("..2", {MORE: hostile("polite")})):
        (home / version).mkdir(exist_ok=True)
        (home / version / "mcp.json").write_text(document(scene, more), encoding="utf-8")
        (home / "..data_tmp").symlink_to(version)
        (home / "..data_tmp").replace(home / "..data")
        if not scene.lab.config.is_symlink():
            scene.lab.config.unlink()
            scene.lab.config.symlink_to("..data/mcp.json")
        until(lambda: names(scene) == {*INNOCENTS, BAD, *more})  # noqa: B023 - it is asked here
    settle(scene)


def lose_the_file(scene: Scene) -> None:
    scene.lab.config.unlink()
    ask_for_a_reload(scene)


def find_the_file_again(scene: Scene) -> None:
    """It returns with one more server, and nobody asks for a reload."""
    save(scene.lab.config, document(scene, {MORE: hostile("polite")}))
    until(lambda: MORE in names(scene))
    settle(scene)


def make_the_file_unreadable(scene: Scene) -> None:
    """Even for root: a link that leads to itself."""
    scene.lab.config.unlink()
    scene.lab.config.symlink_to(scene.lab.config.name)
    ask_for_a_reload(scene)


def ask_for_a_reload(scene: Scene) -> None:
    try:
        scene.lab.client.request("supervisor/reload")
        scene.answers.append(Answer("ok", ""))
    except SupervisorError as error:
        scene.answers.append(Answer("refused", str(error)))


def written(make: Callable[[Scene], str]) -> Step:
    """Save the file that is made of the scene, and ask for a reload."""

    def act(scene: Scene) -> None:
        save(scene.lab.config, make(scene))
        ask_for_a_reload(scene)
        settle(scene)

    return act


def offered(tool: str) -> Check:
    """What may be called."""

    def check(scene: Scene) -> str | None:
        found = [each["name"] for each in scene.lab.client.tools()]
        return None if f"{BAD}_{tool}" in found else f"{tool} is not among {found}"

    return check


def in_another_order(scene: Scene) -> str:
    turned = json.loads(document(scene), object_pairs_hook=lambda pairs: dict(reversed(pairs)))
    return json.dumps(turned, indent=7)


def note_other(scene: Scene) -> None:
    scene.noted["other"] = pid_of(scene, "other")


def other_replaced(scene: Scene) -> str | None:
    return None if pid_of(scene, "other") != scene.noted["other"] else "the other server was not replaced"


def other_untouched(scene: Scene) -> str | None:
    return None if pid_of(scene, "other") == scene.noted["other"] else "the other server was replaced"


def started_once(scene: Scene) -> str | None:
    started = sum("pid" in line for line in scene.lab.journal())
    return None if started == 1 else f"{started} processes were started"


def servers_are(*wanted: str) -> Check:
    def check(scene: Scene) -> str | None:
        found = names(scene) - INNOCENTS.keys()
        return None if found == set(wanted) else f"the servers are {sorted(found)}"

    return check


def remove_during_a_call(scene: Scene) -> None:
    """Take the server out of the file while it works on a call, and have it answer only when that is seen."""
    gate = scene.lab.directory / "gate"
    gate.unlink(missing_ok=True)

    def one() -> None:
        with scene.lab.another_client() as client:
            result = client.call(f"{BAD}_hold", {"file": str(gate)})
            scene.answers.append(Answer("ok", result["content"][0]["text"]))

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(one)
        until(lambda: scene.lab.client.server(BAD)["pending"] == 1)
        save(scene.lab.config, document(scene, without=BAD))
        try:
            until(lambda: f"{BAD}_hold" not in [tool["name"] for tool in scene.lab.client.tools()])
        finally:
            gate.touch()
        waiting.result(PATIENCE)
    until(lambda: BAD not in names(scene))


def keyed(scene: Scene) -> str:
    """The bad server gets a secret from a file."""
    reference = {"TOKEN": f"{{file:{scene.lab.directory}/secret}}"}
    return document(scene, {BAD: {**scene.servers[BAD], "env": reference}})


def change_the_secret(scene: Scene) -> None:
    """Change it in place; nobody asks for a reload."""
    secret = scene.lab.directory / "secret"
    secret.write_text(f"{SECRET}-1", encoding="utf-8")
    written(keyed)(scene)
    note_pid(scene)
    secret.write_text(f"{SECRET}-2", encoding="utf-8")
    until(lambda: pid_of(scene, BAD) not in (None, scene.first_pid))
    settle(scene)


def knows_the_new_secret(scene: Scene) -> str | None:
    """The kernel has what the daemon does not show."""
    environment = Path(f"/proc/{pid_of(scene, BAD)}/environ").read_bytes()
    return None if f"TOKEN={SECRET}-2".encode() in environment else "the server has not the new secret"


def not_in_the_log(scene: Scene) -> str | None:
    return "the log tells the secret" if SECRET in scene.lab.log.read_text(encoding="utf-8") else None


ROWS = (
    Case(
        "F2",
        Promise.TRUTH,
        given="a server works",
        when="a setting is broken by a typo, and the rest of the file has one server more",
        then="the setting stays as it was, status names it, and the rest applies",
        servers={BAD: fake()},
        acts=(
            # Not the default; else nobody could tell that from what was good last.
            written(lambda scene: document(scene, settings={"policy": "open"})),
            note_pid,
            written(lambda scene: document(scene, {MORE: hostile("polite")}, settings={"policy": "opne"})),
            call("echo", text="still here"),
        ),
        # A tool that says that it writes: the default would leave it out.
        checks=(problem("supervisor.policy"), same_process, servers_are(BAD, MORE), offered("crash")),
    ),
    Case(
        "F3",
        Promise.TRUTH,
        given="a server works",
        when="the file is saved by renaming, again and again",
        then="the last one of them is seen, and the server is untouched",
        acts=(note_pid, save_by_renaming, call("echo", text="still here")),
        checks=(texts("still here"), same_process, started_once),
    ),
    Case(
        "F4",
        Promise.TRUTH,
        given="the file is in a volume of Kubernetes",
        when="the volume is swapped",
        then="that is seen, and the server is untouched",
        acts=(note_pid, swap_a_volume, call("echo", text="still here")),
        checks=(texts("still here"), same_process, started_once, servers_are(BAD, MORE)),
    ),
    Case(
        "F5",
        Promise.TRUTH,
        given="a server works",
        when="the file vanishes and returns",
        then="nothing changes at first, and its return is seen",
        acts=(note_pid, lose_the_file, call("echo", text="still here"), find_the_file_again),
        checks=(outcomes("refused", "ok"), same_process, servers_are(BAD, MORE)),
    ),
    Case(
        "F6",
        Promise.TRUTH,
        given="a server works",
        when="the file can no longer be read",
        then="the reload is refused, status says why, and the server is untouched",
        acts=(note_pid, make_the_file_unreadable, call("echo", text="still here")),
        checks=(outcomes("refused", "ok"), same_process, problem("symbolic links")),
    ),
    Case(
        "F7",
        Promise.NO_HARM,
        given="two servers work",
        when="the entry of one changes, and a third is new",
        then="the other one is untouched",
        servers={BAD: hostile(), "other": hostile("polite")},
        acts=(
            note_pid,
            note_other,
            written(
                lambda scene: document(scene, {"other": hostile("polite", "new"), MORE: hostile("polite")})
            ),
        ),
        checks=(same_process, started_once, other_replaced, servers_are(BAD, "other", MORE)),
    ),
    Case(
        "F8",
        Promise.NO_HARM,
        given="a server works",
        when="only blanks and the order of keys change",
        then="nothing is restarted",
        servers={BAD: hostile(env={"ONE": "1", "OTHER": "2"})},
        acts=(note_pid, written(in_another_order), call("echo", text="still here")),
        checks=(outcomes("ok", "ok"), same_process, started_once),
    ),
    Case(
        "F16",
        Promise.ACCOUNT,
        given="a call is under way",
        when="its server is removed from the file",
        then="the call gets its answer, and the server is stopped then",
        servers={BAD: fake()},
        acts=(remove_during_a_call,),
        checks=(texts("held"), servers_are()),
    ),
    Case(
        "F17",
        Promise.TRUTH,
        given="a server gets a secret from a file",
        when="the secret changes in place",
        then="exactly that server is replaced, and the log does not tell the secret",
        servers={BAD: fake(), "other": hostile("polite")},
        acts=(note_other, change_the_secret),
        checks=(knows_the_new_secret, not_in_the_log, other_untouched),
    ),
)
