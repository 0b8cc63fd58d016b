"""A server that says what it is told to, in pieces, without listening first; then it stays or leaves."""

import base64
import os
import signal
import sys

out, err = (base64.b64decode(word) for word in sys.argv[1:3])
signal.alarm(60)
os.write(2, err)
for at in range(0, len(out), 4096):
    os.write(1, out[at : at + 4096])
if sys.argv[3] == "stay":
    signal.pause()
