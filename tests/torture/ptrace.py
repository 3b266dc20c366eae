"""Run a function in a process of its own and meet it, and every process it starts, at its system calls.

A seccomp filter stops a process at the calls that change something and at no other, so the rest runs at full speed. All
processes of a run share one count: the same number means the same call in the next run, as far as they don't race.
Linux on x86-64 only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

CALLS: Final = {
    1: "write", 2: "open", 3: "close", 18: "pwrite64", 20: "writev", 40: "sendfile", 56: "clone", 57: "fork", 58: "vfork",
    59: "execve", 62: "kill", 73: "flock", 74: "fsync", 75: "fdatasync", 76: "truncate", 77: "ftruncate", 82: "rename",
    83: "mkdir", 84: "rmdir", 85: "creat", 86: "link", 87: "unlink", 88: "symlink", 90: "chmod", 91: "fchmod",
    162: "sync", 188: "setxattr", 231: "exit_group", 235: "utimes", 257: "openat", 258: "mkdirat", 263: "unlinkat",
    264: "renameat", 265: "linkat", 266: "symlinkat", 268: "fchmodat", 280: "utimensat", 285: "fallocate", 296: "pwritev",
    306: "syncfs", 316: "renameat2", 322: "execveat", 326: "copy_file_range", 435: "clone3",
}  # fmt: skip
ON_HANDLE: Final = {"write", "close", "pwrite64", "writev", "flock", "fsync", "fdatasync", "ftruncate", "fchmod", "fallocate",
                    "pwritev", "syncfs", "sendfile"}  # fmt: skip
ON_PATH: Final = {"open", "truncate", "rename", "mkdir", "rmdir", "creat", "link", "unlink", "symlink", "chmod", "utimes",
                  "setxattr", "execve"}  # fmt: skip
ON_FOLDER: Final = {"openat", "mkdirat", "unlinkat", "renameat", "linkat", "fchmodat", "utimensat", "renameat2"}
WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
HANG_SECONDS: Final = 90

_TRACEME, _CONT, _GETREGS, _SETREGS, _SETOPTIONS, _GETEVENTMSG = 0, 7, 12, 13, 0x4200, 0x4201
_EVENTS: Final = {1: "fork", 2: "vfork", 3: "clone"}
_SECCOMP_EVENT: Final = 7
# fork, vfork, clone, exec and seccomp stops; everything dies with the tracer.
_OPTIONS: Final = 0x2 | 0x4 | 0x8 | 0x10 | 0x80 | 0x100000
_NO_CALL: Final = (1 << 64) - 1


class _Registers(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_ulonglong)
        for name in (
            "r15",
            "r14",
            "r13",
            "r12",
            "rbp",
            "rbx",
            "r11",
            "r10",
            "r9",
            "r8",
            "rax",
            "rcx",
            "rdx",
            "rsi",
            "rdi",
            "orig_rax",
            "rip",
            "cs",
            "eflags",
            "rsp",
            "ss",
            "fs_base",
            "gs_base",
            "ds",
            "es",
            "fs",
            "gs",
        )
    ]


class _Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint)]


class _Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.POINTER(_Instruction))]


_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_libc.ptrace.restype = ctypes.c_long


def why_not() -> str:
    """Why this machine can't run the rig; empty when it can."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "the rig reads the registers of Linux on x86-64"
    try:
        done = run(lambda: os.close(os.open("/dev/null", os.O_WRONLY)) or 0, "/dev")
    except OSError as error:
        return f"this process may not trace others: {error.strerror}"
    return "" if done.calls else "system calls are not seen here (no seccomp)"


@dataclass(frozen=True)
class Call:
    """A system call before it is made: its number in the run, the process (0: the first one), its name and what it is on.

    ``inside`` says that this is below the folder that the run is about. ``size`` is that of a write. ``alone``: no other
    process of the run was alive. ``reads``: it opens a file only to read it.
    """

    number: int
    process: int
    name: str
    on: str
    inside: bool
    size: int = 0
    creates: bool = False
    alone: bool = True
    reads: bool = False

    def __str__(self) -> str:
        return f"{'harness' if self.process == 0 else 'git'} {self.name} {self.on}"


# What the one who decides may answer at a call: go on; fail with an error number; write half of it; kill this process; kill
# all of them; kill this one and hold the others where they are.
GO, HALF, KILL, KILL_ALL, KILL_HOLD = "go", "half", "kill", "kill all", "kill and hold"
Decide = Callable[[Call], str | int]


@dataclass
class Run:
    """A finished run: exit code of the first process (negative: the signal), what it wrote, and its calls."""

    code: int = 0
    output: str = ""
    calls: list[Call] = field(default_factory=list)
    hung: bool = False
    held: _Tracer | None = None

    def release(self) -> None:
        """Let the processes that were held go on, and wait for their end."""
        if self.held:
            self.held.release()
            self.held = None


def run(work: Callable[[], int], folder: str | Path, decide: Decide = lambda call: GO) -> Run:
    """Run ``work`` in a new process, asking ``decide`` at each call that is on something below ``folder``, on a pipe, or
    about a process. Returns when all processes of the run have ended, or are held."""
    tracer = _Tracer(str(folder), decide)
    tracer.start(work)
    tracer.follow()
    return tracer.run


def plain(work: Callable[[], int]) -> Run:
    """Run ``work`` in a new process that nobody watches."""
    tracer = _Tracer("", lambda call: GO)
    tracer.start(work, watched=False)
    _, status = os.waitpid(tracer.first, 0)
    tracer.run.code = os.waitstatus_to_exitcode(status)
    tracer.said()
    return tracer.run


class _Tracer:
    def __init__(self, folder: str, decide: Decide) -> None:
        self.folder, self.decide, self.run = folder, decide, Run()
        self.order: dict[int, int] = {}  # process -> its place in the order of their starts
        self.alive: set[int] = set()
        self.held: set[int] = set()
        self.holding = False
        self.first = 0
        self.out = -1

    def start(self, work: Callable[[], int], *, watched: bool = True) -> None:
        self.out = os.memfd_create("output")
        self.first = os.fork()
        if self.first == 0:
            code = 70
            try:
                os.setsid()
                null = os.open("/dev/null", os.O_RDONLY)
                for target, source in ((0, null), (1, self.out), (2, self.out)):
                    os.dup2(source, target)
                if watched:
                    _call(_TRACEME, 0)
                    os.kill(os.getpid(), signal.SIGSTOP)
                    _filter()
                code = work()
                sys.stdout.flush()
                sys.stderr.flush()
            except BaseException:
                os.write(2, traceback.format_exc().encode())
            finally:
                os._exit(code)
        if not watched:
            return
        _, status = os.waitpid(self.first, 0)
        if not os.WIFSTOPPED(status):
            raise PermissionError(1, "a child could not ask to be traced")
        _call(_SETOPTIONS, self.first, _OPTIONS)
        self._met(self.first)
        _call(_CONT, self.first)

    def follow(self) -> None:
        """Meet every stop until all processes have ended or are held."""
        until = time.monotonic() + HANG_SECONDS
        while self.alive - self.held:
            pid, status = os.waitpid(-1, 0x40000000 | os.WNOHANG)  # threads, too
            if pid == 0:
                if time.monotonic() > until:
                    self.run.hung = True
                    self._kill(self.alive)
                time.sleep(0.00005)
                continue
            if os.WIFEXITED(status) or os.WIFSIGNALED(status):
                self.alive.discard(pid)
                self.held.discard(pid)
                if pid == self.first:
                    self.run.code = os.waitstatus_to_exitcode(status)
                continue
            with contextlib.suppress(ProcessLookupError):  # killed while it was stopped
                self._stopped(pid, status)
        if self.held:
            self.run.held = self
        self.said()

    def said(self) -> None:
        """Keep what the run has written so far."""
        with open(os.dup(self.out), "rb") as file:
            file.seek(0)
            self.run.output = file.read().decode("utf-8", "replace")
        if not self.alive:
            os.close(self.out)

    def release(self) -> None:
        self.holding, self.decide = False, lambda call: GO
        for pid in list(self.held):
            self.held.discard(pid)
            with contextlib.suppress(ProcessLookupError):
                _call(_CONT, pid)
        self.run.held = None
        self.follow()

    def _met(self, pid: int) -> None:
        if pid not in self.order:
            self.order[pid] = len(self.order)
            self.alive.add(pid)

    def _stopped(self, pid: int, status: int) -> None:
        event, sig = status >> 16, os.WSTOPSIG(status)
        new = pid not in self.order
        self._met(pid)
        if event in _EVENTS:
            message = ctypes.c_ulong()
            _call(_GETEVENTMSG, pid, ctypes.addressof(message))
            self._met(message.value)
        elif event == _SECCOMP_EVENT:
            if self.holding:
                self.held.add(pid)
            elif self._meet(pid):
                _call(_CONT, pid)
            return
        passed_on = 0 if event or new or sig in (signal.SIGSTOP, signal.SIGTRAP) else sig
        _call(_CONT, pid, passed_on)

    def _meet(self, pid: int) -> bool:
        """Do at this call what ``decide`` says; False when the process does not go on."""
        regs = _Registers()
        _call(_GETREGS, pid, ctypes.addressof(regs))
        call = self._describe(pid, regs)
        if call is None:
            return True
        self.run.calls.append(call)
        answer = self.decide(call)
        if answer == GO:
            return True
        if isinstance(answer, int):
            regs.orig_rax, regs.rax = _NO_CALL, (1 << 64) - answer
        elif answer == HALF:
            regs.rdx = max(1, regs.rdx // 2)
        elif answer == KILL_ALL:
            self._kill(self.alive)
            return False
        else:
            self.holding = answer == KILL_HOLD
            self._kill({pid})
            return False
        _call(_SETREGS, pid, ctypes.addressof(regs))
        return True

    def _kill(self, pids: set[int]) -> None:
        for pid in list(pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _describe(self, pid: int, regs: _Registers) -> Call | None:
        name = CALLS.get(regs.orig_rax, "?")
        first, second = regs.rdi, regs.rsi
        size, creates, reads, paths = 0, False, False, list[str]()
        if name in ON_HANDLE:
            paths = [_link(pid, f"fd/{first & 0xFFFFFFFF}")]
            size = regs.rdx if name in ("write", "pwrite64") else 0
        elif name in ON_PATH:
            paths = [_path(pid, None, first)]
            paths += [_path(pid, None, second)] if name in ("rename", "link") else []
        elif name in ON_FOLDER:
            paths = [_path(pid, first, second)]
            paths += [_path(pid, regs.rdx, regs.r10)] if name in ("renameat", "renameat2", "linkat") else []
        elif name == "copy_file_range":
            paths = [_link(pid, f"fd/{regs.rdx & 0xFFFFFFFF}")]
        elif name == "symlinkat":
            paths = [_path(pid, second, regs.rdx)]
        if name in ("open", "openat"):
            flags = regs.rdx if name == "openat" else second
            creates, reads = bool(flags & os.O_CREAT), not flags & WRITING
            if reads and (flags & os.O_DIRECTORY or not os.path.isfile(paths[0])):
                return None
        inside = any(p == self.folder or p.startswith(self.folder + "/") for p in paths)
        piped = any(p.startswith("pipe:") for p in paths)
        if name in ("open", "openat", "close") and not inside and not (piped and name == "close"):
            return None
        if name == "close" and not piped and not _writable(pid, first & 0xFFFFFFFF):
            return None
        if name == "execve" and not os.path.exists(paths[0]):
            return None  # looked for along PATH
        on = " ".join(p.removeprefix(self.folder + "/") for p in paths)
        return Call(len(self.run.calls), self.order[pid], name, on, inside, size, creates, len(self.alive) == 1, reads)


def _call(request: int, pid: int, data: int = 0) -> None:
    if _libc.ptrace(request, pid, None, data) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _filter() -> None:
    """Have the kernel stop this process, and all that it starts, at CALLS."""
    load, equal, give = 0x20, 0x15, 0x06
    lines = [(load, 0, 0, 0)]
    lines += [(equal, len(CALLS) - n, 0, number) for n, number in enumerate(CALLS)]
    lines += [(give, 0, 0, 0x7FFF0000), (give, 0, 0, 0x7FF00000)]
    program = (_Instruction * len(lines))(*(_Instruction(*line) for line in lines))
    whole = _Program(len(lines), program)
    if _libc.prctl(38, 1, 0, 0, 0) or _libc.prctl(22, 2, ctypes.byref(whole), 0, 0):
        raise OSError(ctypes.get_errno(), "no seccomp")


def _link(pid: int, name: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/{name}")
    except OSError:
        return "?"


def _writable(pid: int, handle: int) -> bool:
    try:
        with open(f"/proc/{pid}/fdinfo/{handle}") as file:
            return bool(int(file.read().split("flags:")[1].split()[0], 8) & (os.O_WRONLY | os.O_RDWR))
    except (OSError, IndexError):
        return True


def _path(pid: int, folder: Any, address: int) -> str:
    try:
        with open(f"/proc/{pid}/mem", "rb", 0) as memory:
            memory.seek(address)
            text = os.fsdecode(_upto_null(memory))
    except (OSError, ValueError):
        return "?"
    if text.startswith("/"):
        return os.path.normpath(text)
    number = None if folder is None else ctypes.c_int(folder & 0xFFFFFFFF).value
    base = _link(pid, "cwd" if number in (None, -100) else f"fd/{number}")
    return os.path.normpath(os.path.join(base, text))


def _upto_null(memory: Any) -> bytes:
    data = b""
    while b"\0" not in data and len(data) < 8192:
        # To the end of the page and no further: the next one may not be there.
        data += memory.read(256 - memory.tell() % 256)
    return data.partition(b"\0")[0]
