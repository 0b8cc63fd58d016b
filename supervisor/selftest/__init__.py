"""The promises of this program, put to the test on the machine at hand.

`case` says what a case is, `table` has them, `steps` the words that they are written in, `lab` the daemon
that they happen to, `innocent` calls another server meanwhile, `oracle` says what must be so after each of
them, and `hostile` is the server that misbehaves.
Nothing here is used by the daemon.
"""
