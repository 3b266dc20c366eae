"""The program behind every hook that answers: ``python -I -S hook.py ROOT RUNTIME`` with the event on stdin.

Whatever happens here, the client sees exit 0 and either nothing or one JSON object; a failure of ours becomes one line
in ``RUNTIME/hook-errors.log``. This file is compiled anew at each start (a script has no cached bytecode), so it only
finds the package and hands over.
"""

import sys
import time

STARTED = time.perf_counter()


def main(argv: list[str]) -> None:
    """Handle one event for the workspace ``argv[0]`` with the runtime folder ``argv[1]``."""
    import os

    if os.environ.get("HARNESS_LINEAGE") or len(argv) != 2 or not os.path.isdir(argv[1]):
        return
    # At the end of the path: a package installed beside ours must not stand in for a module of the standard library.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    from harness.clients.serve import serve

    serve(argv[0], argv[1], STARTED)


if __name__ == "__main__":
    try:  # noqa: SIM105 (contextlib is one more import for every hook)
        main(sys.argv[1:])
    except BaseException:
        pass
