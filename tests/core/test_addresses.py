"""A name does not lead to a cloud's metadata, and an address that was written down does."""

import pytest

from supervisor.core.addresses import may_lead


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "169.254.0.1", "fe80::1", "fe80::1%eth0", "::ffff:169.254.169.254", "fd00:ec2::254"],
)
def test_a_name_does_not_lead_to_a_link_local_address(address: str) -> None:
    assert not may_lead("tools.example", address)


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.7", "::1", "93.184.216.34", "/run/proxy.sock"])
def test_a_name_leads_anywhere_else(address: str) -> None:
    assert may_lead("tools.example", address)


@pytest.mark.parametrize(
    ("host", "address"), [("169.254.169.254", "169.254.169.254"), ("[fe80::1]", "fe80::1")]
)
def test_an_address_that_the_entry_names_itself_is_meant(host: str, address: str) -> None:
    assert may_lead(host, address)
