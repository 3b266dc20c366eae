"""The one place that starts git: clean environment, no hooks, no prompts, no code from the repository's configuration."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from harness.errors import NEEDS_PERSON, HarnessError
from harness.workspace import common_dir, git_dir_of

if TYPE_CHECKING:
    from git import Git as GitPython

# Variables that say who asks and how to reach the network, not which repository is meant. Every other GIT_* of the
# caller is dropped: with an inherited GIT_DIR or GIT_INDEX_FILE a tick made inside another git command landed in a
# foreign repository (pre-commit, lefthook and others have each had that bug), and GIT_QUARANTINE_PATH of a receive
# hook makes update-ref refuse.
_KEPT = ("GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "GIT_SSL_NO_VERIFY", "GIT_EXEC_PATH", "GIT_ASKPASS",
         "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_TEST_ASSUME_DIFFERENT_OWNER")  # fmt: skip

_ALWAYS = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",  # a plain `git status` refreshes the index and takes its lock: seen to break a user's commit
    "GIT_EDITOR": "true",
    "GIT_PAGER": "cat",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
}

# Hooks, file-system monitors and automatic gc would each run code or take time that a tick hasn't asked for.
_OPTIONS = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0", "-c", "maintenance.auto=false",
            "-c", "core.quotePath=false", "-c", "core.logAllRefUpdates=true")  # fmt: skip

_environ_lock = threading.RLock()


class GitError(HarnessError):
    """Git refused; ``why`` holds its own words in one line."""

    def __init__(self, args: Sequence[str], code: int, stderr: str) -> None:
        self.code, self.stderr = code, stderr
        lines = [line.strip() for line in stderr.splitlines() if line.strip()] or [f"exit code {code}"]
        # After its own words git often gives advice for people at a terminal.
        last = next((line for line in lines if line.startswith(("fatal: ", "error: "))), lines[-1])
        for known, what, next_step in _KNOWN:
            if known in stderr:
                super().__init__(what, last, next_step)
                self.exit_code = NEEDS_PERSON
                return
        super().__init__(f"git {args[0] if args else ''} failed", last)


_KNOWN = (
    ("dubious ownership", "this workspace belongs to another user",
     "if you trust it, run `git config --global --add safe.directory` with its path"),
    ("not a git repository", "this workspace has no usable git repository", "run `harness doctor`"),
)  # fmt: skip


def clean_environment(env: Mapping[str, str], **extra: str) -> dict[str, str]:
    """``env`` without any variable that names a repository, an index or a configuration, plus what every call sets."""
    kept = {k: v for k, v in env.items() if not k.startswith("GIT_") or k in _KEPT}
    return {**kept, **_ALWAYS, **extra}


@contextmanager
def no_git_env() -> Iterator[None]:
    """Inside, this process's environment names no repository. GitPython hands its own environment to git and can add
    to it but not take away, so the offending variables are set aside while a process starts."""
    found = [k for k in os.environ if k.startswith("GIT_") and k not in _KEPT]
    if not found:
        yield
        return
    with _environ_lock:
        aside = {k: os.environ.pop(k) for k in found if k in os.environ}
        try:
            yield
        finally:
            os.environ.update(aside)


class Git:
    """Git in one work tree. Close it (or leave its ``with``) to end the process it keeps open for reading."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._git: GitPython | None = None
        self._reader: subprocess.Popen[bytes] | None = None
        self._facts: dict[str, str] | None = None

    def start(
        self, *args: str, env: Mapping[str, str] | None = None, own_session: bool = False
    ) -> subprocess.Popen[bytes]:
        """Start ``git ARGS`` with all three streams as pipes. ``own_session``: without a terminal to ask on, and killed whole."""
        if self._git is None:
            from git import Git as GitPython  # 85 ms: paid where a tick is made, never in a hook

            self._git = GitPython()
        with no_git_env():
            extra = {**_ALWAYS, "GIT_CEILING_DIRECTORIES": str(self.root.parent), **(env or {})}
            process = self._git.execute(
                # GitPython expands `$HOME` and `~` in a folder's name, and where that leads nowhere it quietly runs git in
                # the current folder: a tick went for another repository. Git is told the folder itself.
                ["git", "-C", str(self.root), *_OPTIONS, *args],
                istream=subprocess.PIPE,
                as_process=True,
                env=extra,
                start_new_session=own_session,
            )
        # GitPython's wrapper ends the process when it is collected; the plain process lives as long as its user.
        plain = process.proc
        process.proc = None
        return cast("subprocess.Popen[bytes]", plain)

    def run(
        self, *args: str, data: bytes = b"", env: Mapping[str, str] | None = None, ok: Sequence[int] = (0,),
        timeout: float | None = None,
    ) -> bytes:  # fmt: skip
        """Run ``git ARGS`` with ``data`` on its standard input and return its standard output; raise GitError, also when it
        takes over ``timeout`` seconds: then it is killed together with what it has started."""
        with self.start(*args, env=env, own_session=timeout is not None) as process:
            try:
                out, err = process.communicate(data, timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                raise GitError(args, -9, f"no answer within {timeout:g} s") from None
        if process.returncode not in ok:
            raise GitError(args, process.returncode, err.decode("utf-8", "replace"))
        return out

    def text(self, *args: str, **kwargs: Any) -> str:
        """``run`` as text without the last line break."""
        return self.run(*args, **kwargs).decode("utf-8", "surrogateescape").rstrip("\n")

    @property
    def facts(self) -> Mapping[str, str]:
        """The settings of git that the store goes by, read once: user.*, core.sharedrepository, core.sparsecheckout, extensions.*."""
        if self._facts is None:
            wanted = r"^(user\.(name|email)|core\.(sharedrepository|sparsecheckout)|extensions\..*)$"
            text = self.text("config", "-z", "--get-regexp", wanted, ok=(0, 1))
            self._facts = dict(part.partition("\n")[::2] for part in text.split("\0") if part)
        return self._facts

    def plain_objects(self) -> tuple[Path, str] | None:
        """(object folder, hash algorithm) of a repository whose objects may be written as plain files, else None."""
        known = {
            "extensions.objectformat",
            "extensions.worktreeconfig",
            "extensions.partialclone",
            "extensions.refstorage",
        }
        odd = [key for key in self.facts if key.startswith("extensions.") and key not in known]
        shared = self.facts.get("core.sharedrepository", "umask") not in ("umask", "false", "0", "no", "off")
        git_dir = git_dir_of(self.root)
        if odd or shared or git_dir is None:
            return None
        return common_dir(git_dir) / "objects", self.facts.get("extensions.objectformat", "sha1")

    def object(self, name: str) -> tuple[str, str, bytes] | None:
        """(id, type, bytes) of the object that ``name`` stands for, or None when there is none.

        One ``git cat-file --batch`` answers all calls; refs are looked up anew each time.
        """
        reader = self._open_reader()
        to, back = pipe(reader.stdin), pipe(reader.stdout)
        if "\n" in name:
            return None
        try:
            to.write(name.encode("utf-8", "surrogateescape") + b"\n")
            to.flush()
            head = back.readline()
        except BrokenPipeError:
            head = b""
        fields = head.rsplit(maxsplit=2)
        if head.endswith(b"\n") and (len(fields) < 3 or not fields[2].isdigit()):
            return None  # "… missing" or "… ambiguous"
        size = int(fields[2]) if head.endswith(b"\n") else 0
        data = back.read(size + 1)
        if len(data) <= size:
            # It died in the middle of its answer. Half a tree taken for a whole one would drop files from the next commit.
            err = pipe(reader.stderr).read().decode("utf-8", "replace")
            self.close()
            raise GitError(("cat-file",), reader.returncode, err)
        data = data[:size]
        return fields[0].decode(), fields[1].decode(), data

    def _open_reader(self) -> subprocess.Popen[bytes]:
        if self._reader is None or self._reader.poll() is not None:
            self._reader = self.start("cat-file", "--batch")
        return self._reader

    def close(self) -> None:
        """End the reading process."""
        reader, self._reader = self._reader, None
        if reader is not None:
            with contextlib.suppress(OSError):  # a pipe that is closed already
                pipe(reader.stdin).close()
            reader.wait()
            pipe(reader.stdout).close()
            pipe(reader.stderr).close()

    def __enter__(self) -> Git:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()


def pipe(stream: IO[bytes] | None) -> IO[bytes]:
    """A stream of a process that was started with pipes."""
    if stream is None:
        raise ValueError("the process was started without pipes")
    return stream


def quick(root: Path, *args: str, above: bool = False) -> tuple[int, str]:
    """``git ARGS`` in ``root`` for commands that only look: (exit code, output). No GitPython, so `status` starts fast.

    The repository is that of ``root`` itself; with ``above`` also one that ``root`` lies somewhere in.
    """
    ceiling = {} if above else {"GIT_CEILING_DIRECTORIES": str(root.parent)}
    done = subprocess.run(
        ["git", *_OPTIONS, *args], cwd=root, stdin=subprocess.DEVNULL, capture_output=True, check=False,
        env=clean_environment(os.environ, LC_ALL="C", **ceiling),
    )  # fmt: skip
    return done.returncode, (done.stdout or done.stderr).decode("utf-8", "surrogateescape")
