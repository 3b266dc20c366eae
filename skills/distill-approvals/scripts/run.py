"""The sidecar of distill-approvals: one pass over the decisions, audited by a process of its own."""

import json
import os
import subprocess
import sys

command = [
    sys.executable,
    "-P",
    "-m",
    "harness",
    "--workspace",
    os.environ["HARNESS_WORKSPACE"],
    "taste",
    "refresh",
    "--json",
]
done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
if done.returncode != 0:
    sys.exit(done.stderr.strip() or f"exit code {done.returncode}")
found = json.loads(done.stdout)
issue = f" ({found['issue']})" if found["issue"] else ""
print(f"{found['rows']} decisions, {len(found['hints'])} new hints, score {found['score']}{issue}")
print(
    json.dumps(
        {
            "eval": "audited",
            "score": found["score"],
            "primary_issue": found["issue"],
            "artifact_path": found["artifact"],
        }
    )
)
