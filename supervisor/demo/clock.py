"""Tools about time: now, elsewhere, and later. The zone database is the system's."""

from typing import TYPE_CHECKING

from supervisor.demo.tool import Arguments, Control, JsonObject, Output, ToolError

if TYPE_CHECKING:
    from datetime import datetime
    from zoneinfo import ZoneInfo


def time_now(arguments: Arguments, _: Control) -> Output:
    from datetime import datetime

    zone = _zone(arguments.get("zone", "UTC"))
    return _describe(datetime.now(zone), zone)


def time_convert(arguments: Arguments, _: Control) -> Output:
    moment = _moment(arguments["time"], assumed=_zone(arguments.get("from_zone", "UTC")))
    zone = _zone(arguments["to_zone"])
    try:
        return _describe(moment.astimezone(zone), zone)
    except OverflowError as error:
        reason = "it leaves the years 1 to 9999"
        raise ToolError(f"cannot convert the time {arguments['time']!r}; {reason}") from error


def wait_seconds(arguments: Arguments, control: Control) -> Output:
    total = float(arguments["seconds"])
    steps = max(1, int(total))
    for step in range(1, steps + 1):
        control.wait(total / steps)
        control.report(step * total / steps, total)
    return f"waited {total:g} s"


def _zone(name: str) -> "ZoneInfo":
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        advice = "use a name such as Europe/Berlin or UTC"
        raise ToolError(f"cannot find the time zone {name!r}; {advice}") from error


def _moment(text: str, *, assumed: "ZoneInfo") -> "datetime":
    from datetime import datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        advice = "write it as 2025-01-31T14:30, with an offset or without"
        raise ToolError(f"cannot read the time {text!r}; {advice}") from error
    return moment.replace(tzinfo=assumed) if moment.tzinfo is None else moment


def _describe(moment: "datetime", zone: "ZoneInfo") -> JsonObject:
    return {
        "time": moment.isoformat(timespec="seconds"),
        "zone": zone.key,
        "abbreviation": moment.tzname(),
        "weekday": moment.strftime("%A"),
        "week": moment.isocalendar().week,
        "unix": int(moment.timestamp()),
    }
