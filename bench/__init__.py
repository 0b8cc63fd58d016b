"""How fast the daemon is, as ratios to a program that holds the servers' pipes itself."""
