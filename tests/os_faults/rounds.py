"""One round: a workload runs with a fault, is checked, and runs once more without the fault."""

import dataclasses
import errno
import os
import re

import faults
import limits
import workloads

# Exit codes with a meaning (docs/reference/exit-codes.md).
_CODES = {1, 2, 65, 69, 74, 77, 78, 200, 201}
_CRASH = re.compile(r"Check failed|\*\*\* SIG|SIGSEGV|SIGABRT|SIGBUS|AddressSanitizer|"
                    r"runtime error: |terminate called|std::bad_alloc|Segmentation|pure virtual|"
                    r"stack trace|    @ +0x|killed by signal|assertion failed", re.IGNORECASE)
# Other texts that name the cause of an errno.
_CAUSES = {errno.ENOSPC: ["the disk is full", "out of space"],
           errno.EAGAIN: ["cannot create a thread"],
           errno.ENOMEM: ["out of memory"],
           errno.EMFILE: ["may open only"],
           errno.ECONNRESET: ["lost"],
           faults.SHORT: ["truncated", "damaged", "short", "partial", "corrupt"]}


# Crashes in libraries that Tandem cannot prevent: a part of the function's name, or of the output.
KNOWN = {"libxsmm": "libxsmm 1.17 crashes if it gets no memory for its code",
         "ev_epoll1_linux.cc": "gRPC 1.51 aborts if it gets no epoll set, or no watch in it",
         "statusor.cc": "gRPC 1.51 aborts if it gets no event descriptor",
         "Waiting for thread pool to idle": "gRPC 1.51 waits for a thread that it did not get",
         "rpc::MakeChannel": "gRPC 1.51 does not report a thread that it did not get",
         "low_level_alloc.cc": "Abseil aborts if it gets no memory for its cords and traces",
         "libgomp: Thread creation failed": "libgomp exits with code 1 if it gets no thread"}


@dataclasses.dataclass
class Verdict:
    reached: object = None  # the place whose call failed; None: the fault was not reached
    code: int = 0
    seconds: float = 0
    findings: list = dataclasses.field(default_factory=list)  # (kind, text)


class Rounds:
    """Runs workloads in directories below `parent`."""

    def __init__(self, bin_folder, library, parent):
        self.bin, self.library, self.parent = bin_folder, library, parent
        self.expected = {}  # name of a workload -> bits without a fault
        self.places = {}  # name of a workload -> its calls
        self._count = 0

    def new_folder(self):
        self._count += 1
        return workloads.Folder(self.bin, os.path.join(self.parent, f"r{self._count}"))

    def _environment(self, folder):
        return {"LD_PRELOAD": self.library, "TANDEM_FAULT_DIR": folder.path}

    def count(self, workload):
        """Runs a workload without a fault, and records its calls and its result."""
        with self.new_folder() as folder:
            workload.prepare(folder)
            log = folder.path + ".calls"
            environment = {**self._environment(folder), "TANDEM_FAULT_LOG": log}
            outcome = workload.run(folder, environment)
            if outcome.code != 0 or not outcome.result:
                raise RuntimeError(f"{workload.name} fails without a fault: {outcome.code}\n"
                                   f"{outcome.screen}")
            self.expected[workload.name] = outcome.result
            self.places[workload.name] = faults.read_places(log)
            os.unlink(log)

    def run(self, workload, fault, keep=None):
        """Runs one round. `keep`: gets the directory's path if something was found."""
        verdict = Verdict()
        folder = self.new_folder()
        try:
            workload.prepare(folder)
            mark = folder.path + ".mark"
            outcome = workload.run(folder, {**self._environment(folder),
                                            **fault.environment(mark)})
            places = faults.read_places(mark)
            if os.path.exists(mark):
                os.unlink(mark)
            verdict.code, verdict.seconds = outcome.code, outcome.seconds
            if places:
                verdict.reached = places[0]
                self.ending(workload, folder, outcome, verdict,
                            lambda: _unnamed(fault, places[0], outcome.screen))
                # A checkpoint whose removal fails has no manifest any more.
                if fault.call in faults.OF_FILES and fault.call != "unlink" and \
                        isinstance(workload, workloads.Job):
                    verdict.findings += [("damaged checkpoint", text) for text
                                         in workloads.damaged_checkpoints(folder)]
            again = workload.run(folder, {})
            self.again(workload, folder, again, verdict)
        finally:
            if verdict.findings and keep is not None:
                keep.append(folder.path)
                folder.stop()
            else:
                folder.__exit__()
        return verdict

    def ending(self, workload, folder, outcome, verdict, lacks):
        """Checks how a run ended. `lacks`: says what its messages do not name."""
        def add(kind, text):
            verdict.findings.append((kind, text))
        tail = outcome.screen[-3000:]
        # A later tandemrun removes a directory of sockets that this one could not remove.
        place = verdict.reached
        removes = place and place.program == "tandemrun" and \
            place.call in ("unlink", "readdir", "opendir", "open") and "/run" in place.path
        for thing in outcome.left:
            if not (removes and thing.startswith("socket")):
                add("left " + thing.split()[0], f"{thing}\n{tail}")
        crash = _crash_line(folder, outcome.screen)
        if outcome.code is None:
            add("hang", f"still running after {workloads.DEADLINE_S} s\n{tail}")
        elif crash:
            add("crash", f"exit code {outcome.code}: {crash}\n{_of_libraries(folder)}{tail}")
        elif outcome.code == 0:
            # tandem export says so when it leaves out a checkpoint that the disk cannot read.
            told = "is ignored, because it cannot be read" in outcome.screen and \
                isinstance(workload, workloads.Command)
            if outcome.result != self.expected[workload.name] and not told:
                add("wrong result", f"exit code 0, result {outcome.result[:12] or 'none'}\n{tail}")
        elif outcome.code not in _CODES:
            add("crash", f"exit code {outcome.code}\n{tail}")
        else:
            missing = lacks()
            if missing:
                add("unnamed", f"exit code {outcome.code}: {', '.join(missing)}\n{tail}")

    def again(self, workload, folder, again, verdict):
        """Checks a later run without a fault: nothing is lost."""
        if again.code is None or again.code != 0:
            verdict.findings.append(("lost", f"without the fault: exit code {again.code}\n"
                                     f"{again.screen[-3000:]}"))
        elif again.result != self.expected[workload.name]:
            verdict.findings.append(("lost", f"other bits: {again.result[:12]} instead of "
                                     f"{self.expected[workload.name][:12]}"))
        for path in folder.unfinished():
            verdict.findings.append(("left unfinished", os.path.relpath(path, folder.path)))
        for thing in again.left:
            verdict.findings.append(("left " + thing.split()[0], f"by the second run: {thing}"))


def _logs(folder):
    logs = folder.file("log")
    names = sorted(os.listdir(logs)) if os.path.isdir(logs) else []
    return [folder.read(os.path.join("log", name)) for name in names
            if os.path.isfile(os.path.join(logs, name))]


def _of_libraries(folder):
    """Lines of the logs that tell of a known crash of a library."""
    return "".join(line + "\n" for text in _logs(folder) for line in text.splitlines()
                   if any(part in line for part in KNOWN))


def _crash_line(folder, screen):
    for text in [screen, *_logs(folder)]:
        for line in text.splitlines():
            if _CRASH.search(line):
                return line
    return ""


def _unnamed(fault, place, screen):
    """What the messages of a failed run lack."""
    lacks, low = [], screen.lower()
    if fault.call in ("send", "recv") and re.search("lost|closed|reset", low):
        return []  # the kernel does not say which call of another process failed
    causes = [cause.lower() for cause in _CAUSES.get(fault.error, [])]
    if fault.error != faults.SHORT:
        causes.append(os.strerror(fault.error).lower())
    if not any(cause in low for cause in causes):
        lacks.append(f"no cause ({causes[-1]})")
    if not re.search(r"\[TD\d{4}\]", screen):
        lacks.append("no code")
    secret = place.path.startswith("/memfd:")  # has another name for the user
    if fault.call in faults.OF_FILES and place.path != "-" and not secret:
        parts = place.path.rstrip("/").split("/")
        names = [name for name in parts[-2:] if name]
        if not any(name in screen for name in names):
            lacks.append(f"no file ({place.path})")
    return lacks


def run_limit(rounds, limit, keep=None):
    """Runs a workload below a limit of the host, and once more without it."""
    workload, verdict = limits.workload_of(limit), Verdict()
    folder = rounds.new_folder()
    try:
        workload.prepare(folder)
        if limit.user:
            limits.hand_over(folder)
        with limits.SmallDisk(folder, limit):
            outcome = workload.run(folder, {}, limit.apply)
            verdict.code, verdict.seconds = outcome.code, outcome.seconds
            rounds.ending(workload, folder, outcome, verdict,
                          lambda: _without_cause(limit, outcome.screen))
        if not limit.user:  # its files are another user's
            rounds.again(workload, folder, workload.run(folder, {}), verdict)
    finally:
        if verdict.findings and keep is not None:
            keep.append(folder.path)
            folder.stop()
        else:
            folder.__exit__()
    return verdict


def _without_cause(limit, screen):
    lacks = []
    if not any(cause in screen for cause in limit.causes):
        lacks.append(f"none of {', '.join(limit.causes)}")
    if not re.search(r"\[TD\d{4}\]", screen) and "error while loading shared" not in screen:
        lacks.append("no code")
    return lacks
