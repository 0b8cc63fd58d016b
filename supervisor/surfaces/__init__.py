"""The ways in which the outside sees the fleet and speaks to it."""
