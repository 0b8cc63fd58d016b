"""Where a name may lead: not to the link-local addresses at which clouds hand out a machine's credentials."""

import ipaddress

_METADATA_IN_IPV6 = ipaddress.ip_address("fd00:ec2::254")


def may_lead(host: str, address: str) -> bool:
    """Whether a connection to `host` may be one to `address`.

    A link-local address is meant only when the entry names it itself: a name that leads there today led
    somewhere else when the entry was written.
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return True
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return not (found.is_link_local or found == _METADATA_IN_IPV6) or host.strip("[]") == address
