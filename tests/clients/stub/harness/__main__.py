"""Record the arguments, the session and the names of the environment of one started command, whole or not at all."""

import json
import os
import sys

record = {"argv": sys.argv[1:], "sid": os.getsid(0), "pid": os.getpid(), "env": sorted(os.environ), "cwd": os.getcwd()}
folder = os.environ["SPAWN_LOG"]
temporary = os.path.join(folder, f".{os.getpid()}")
with open(temporary, "w") as file:
    json.dump(record, file)
os.rename(temporary, os.path.join(folder, f"{os.getpid()}.json"))
