"""Which tools are known by name: the difference between one that cannot be called and one that never was."""

from supervisor.core.agents import Names
from supervisor.core.naming import beginning
from supervisor.surfaces.service import Service


def known(service: Service) -> Names:
    """Every tool that a server has or had, offered or not."""
    catalog, former = service.fleet.catalog, service.fleet.listing.former_names
    left_out = (entry.public_name for entry in catalog.left_out)
    return Names({*catalog.by_name, *left_out, *former}, beginnings(service))


def beginnings(service: Service) -> tuple[str, ...]:
    """How the names of tools begin whose server has not listed any yet."""
    fleet = service.fleet
    members = [member for member in fleet.members.values() if member.shelf is None]
    return tuple(sorted({beginning(member.prefix, fleet.listing.separator) for member in members}))
