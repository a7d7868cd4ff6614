"""Trains jobs and functions in processes of their own, with a progress bar.

    result = tandem.fit("lenet.pbtxt", epochs=2)
    result = tandem.fit("lenet.pbtxt", servers=2, workers=2, callback=print)
    losses = tandem.launch(train, nproc=2)      # train() uses tandem.fleet

Both start `tandemrun`, as a terminal does.
"""

from __future__ import annotations

import collections
import inspect
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass, field
from typing import (
    IO,
    Any,
    Callable,
    Deque,
    Dict,
    Iterable,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from . import programs
from .errors import Error, FailedPreconditionError, InvalidArgumentError
from .table_files import settings_of

__all__ = ["JobError", "Result", "fit", "launch"]

Row = Dict[str, Any]
Callback = Callable[[Row], Any]

_KEPT_LINES = 200  # lines of output that a failure may quote
_STOP_S = 60  # how long the launcher may take to stop a job; more than its --grace_s
_BAR = 24  # width of the progress bar in characters


class JobError(Error):
    """The processes of a job ended with an error.

    Attributes:
        output: the last lines that they wrote.
    """

    status = "ABORTED"

    def __init__(self, message: str, hint: str = "", output: str = "") -> None:
        super().__init__(message, hint)
        self.output = output


@dataclass
class Result:
    """The result of a job.

    Attributes:
        metrics: values of the last evaluation by name, such as loss and accuracy.
        steps: training steps.
        seconds: duration of the training.
        samples_per_s: samples of all ranks for each second of training steps.
        params_sha256: the SHA-256 of the parameters.
        history: a row for each progress line, with step and loss.
    """

    metrics: Dict[str, float]
    steps: int
    seconds: float
    samples_per_s: float
    params_sha256: str
    history: List[Row] = field(default_factory=list)


class _Progress:
    """A progress bar on one line."""

    def __init__(self, to: Optional[IO[str]]) -> None:
        self._to = to
        self._width = 0

    def show(self, row: Row) -> None:
        """Shows a progress line of the trainer."""
        if self._to is None or "step" not in row:
            return
        done = int(_BAR * row["step"] / max(row["total"], 1))
        words = [f"{row['step']}/{row['total']}"]
        words += [f"{name} {value:.4f}" for name, value in row.items()
                  if isinstance(value, float) and name in ("loss", "accuracy", "auc")]
        words.append(f"{row.get('samples_per_s', 0):.0f} samples/s")
        text = f"[{'=' * done}{' ' * (_BAR - done)}] {'  '.join(words)}"
        self._to.write("\r" + text.ljust(self._width))
        self._to.flush()
        self._width = len(text)

    def end(self) -> None:
        """Ends the line."""
        if self._to is not None and self._width:
            self._to.write("\n")


def _flags(nproc: Optional[int], servers: Optional[int], workers: Optional[int]) -> List[str]:
    if nproc is not None and (servers is not None or workers is not None):
        raise InvalidArgumentError(
            "nproc is for collective mode, servers and workers are for pserver mode [TD1005]",
            "give nproc, or servers and workers",
        )
    if nproc is not None:
        return [f"--nproc={nproc}"]
    if servers is not None or workers is not None:
        return [f"--servers={servers or 1}", f"--workers={workers or 1}"]
    return ["--mode=local"]


def _run(command: Sequence[str], take: Callback, say: Callable[[str], Any]) -> None:
    """Runs tandemrun. `take` gets each JSON object that it writes, `say` each other line.

    Raises:
        JobError: it ended with an error.
    """
    lines: Deque[str] = collections.deque(maxlen=_KEPT_LINES)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                row = _row(line)
                if row is not None:
                    take(row)
                    continue
                lines.append(line)
                say(line)
        except BaseException:
            process.send_signal(signal.SIGINT)
            try:
                process.communicate(timeout=_STOP_S)  # reads on, so that the launcher can write
            except subprocess.TimeoutExpired:
                process.kill()
            raise
    if process.returncode != 0:
        raise _failure(process.returncode, lines)


def _row(line: str) -> Optional[Row]:
    if not line.startswith("{"):
        return None
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


# The launcher quotes the last lines of a process after this.
_QUOTE = re.compile(r"^\s*\| ")
_ERROR = re.compile(r"\berror: |^[\w.]*(?:Error|Exception): ")


def _failure(code: int, lines: Iterable[str]) -> JobError:
    """Returns the first error in the output with its hint. The launcher's summary follows it."""
    plain = [_QUOTE.sub("", line).rstrip() for line in lines]
    errors = [i for i, line in enumerate(plain)
              if _ERROR.search(line) and not line.startswith("tandemrun: error: job ")]
    hints = [i for i, line in enumerate(plain) if line.startswith("hint: ")]
    if not errors:
        return JobError(f"tandemrun ended with exit code {code}", "read `output`", "".join(lines))
    after = [i for i in hints if i > errors[0]]
    hint = plain[after[0]].removeprefix("hint: ") if after else ""
    return JobError(plain[errors[0]], hint, "".join(lines))


def fit(
    job: Union[str, "os.PathLike[str]"],
    nproc: Optional[int] = None,
    servers: Optional[int] = None,
    workers: Optional[int] = None,
    callback: Optional[Callback] = None,
    progress: Optional[bool] = None,
    settings: Optional[Mapping[str, Any]] = None,
    data: Any = None,
    **fields: Any,
) -> Result:
    """Trains a job and returns its result.

    Args:
        job: a job file (*.pbtxt), or the text of one. Paths in a text are relative to the working
            directory.
        data: the table of the job, instead of data.table.file: what `tandem.reader.Table` takes.
            Columns in memory are written into a temporary file. The kinds of the columns are in the
            job.
        nproc: ranks of collective mode.
        servers, workers: parameter servers and trainers of pserver mode.
        callback: called with each progress row (step, loss, samples_per_s, ...) and each
            evaluation ({"result": "eval", ...}). An exception ends the job.
        progress: show a progress bar on stderr; None: if stderr is a terminal or a notebook.
        settings: fields of the job and knobs, by name: {"optimizer.learning_rate": 0.1}.
        fields: more of them whose names have no dots: epochs=2.

    Raises:
        JobError: the job ended with an error. `output` has its last lines.
        FileMissingError: there is no program tandemrun.
        InvalidArgumentError, UnimplementedError: `data` is no table.
        KeyboardInterrupt: Ctrl-C; the job has ended.
    """
    launcher = [programs.path("tandemrun"), *_flags(nproc, servers, workers)]
    bar = _Progress(sys.stderr if _shows(progress) else None)
    history: List[Row] = []

    def take(row: Row) -> None:
        if "step" in row:
            history.append(row)
            bar.show(row)
        if callback is not None:
            callback(row)

    with tempfile.TemporaryDirectory(prefix="tandem-fit-") as folder:
        tables = {} if data is None else settings_of(data, folder)
        chosen = {**tables, **(settings or {}), **fields}
        path, own = _job_file(job)
        result = os.path.join(folder, "result.json")
        command = [*launcher, "--log_dir=" + os.path.join(folder, "log"), path]
        command += [f"--{name}={_text(value)}" for name, value in chosen.items()]
        command += ["--", "--log_format=json", "--result_json=" + result]
        try:
            _run(command, take, lambda line: None)
        finally:
            bar.end()
            if own:
                os.remove(path)
        with open(result, encoding="utf-8") as file:
            values = json.load(file)
    known = ("images_per_s", "steps", "seconds", "data_wait_seconds", "batches_ready",
             "params_sha256", "counts", "history", "speed_test")
    return Result(
        metrics={name: value for name, value in values.items() if name not in known},
        steps=values["steps"],
        seconds=values["seconds"],
        samples_per_s=values["images_per_s"],
        params_sha256=values.get("params_sha256", ""),
        history=history,
    )


def _shows(progress: Optional[bool]) -> bool:
    return sys.stderr.isatty() or "ipykernel" in sys.modules if progress is None else progress


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _job_file(job: Union[str, "os.PathLike[str]"]) -> Tuple[str, bool]:
    """Returns the path of the job file, and whether this call made it. The text of a job goes into a
    file of the working directory, because its paths are relative to it."""
    text = os.fspath(job)
    if "{" not in text and "\n" not in text:
        return text, False
    handle, path = tempfile.mkstemp(prefix=".tandem-fit-", suffix=".pbtxt", dir=os.getcwd())
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    return path, True


_SCRIPT = """import os, pickle
{source}
if __name__ == "__main__":
    with open({arguments!r}, "rb") as file:
        arguments = pickle.load(file)
    result = {name}(*arguments)
    from tandem import _core
    rank = _core.rank_from_env(dict(os.environ)).rank
    with open(os.path.join({folder!r}, "result.%d" % rank), "wb") as file:
        pickle.dump(result, file)
"""


def launch(
    function: Callable[..., Any],
    args: Tuple[Any, ...] = (),
    nproc: Optional[int] = None,
    servers: Optional[int] = None,
    workers: Optional[int] = None,
) -> List[Any]:
    """Runs a function on several ranks and returns their results, by rank. Made for notebooks.

    The ranks run the source of the function, so it must import what it uses. It calls
    `tandem.fleet.init()` or `torch.distributed.init_process_group("tandem")` itself.

    Args:
        function: a function with a name and a source.
        args: its arguments; they and the results must be picklable.
        nproc: ranks of collective mode.
        servers, workers: parameter servers and trainers of pserver mode.

    Raises:
        InvalidArgumentError: the function has no source, such as a lambda.
        JobError: a rank ended with an error.
    """
    name = getattr(function, "__name__", "")
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError) as error:
        raise InvalidArgumentError(f"launch: {name or function!r} has no source: {error} [TD1206]") from None
    if not source.startswith("def "):
        raise InvalidArgumentError(
            f"launch: expected a function that `def` defines, got {name or function!r} [TD1206]"
        )
    count = nproc or workers or 1
    with tempfile.TemporaryDirectory(prefix="tandem-launch-") as folder:
        arguments = os.path.join(folder, "arguments")
        with open(arguments, "wb") as file:
            pickle.dump(args, file)
        path = os.path.join(folder, "launched.py")
        with open(path, "w", encoding="utf-8") as text:
            text.write(_SCRIPT.format(source=source, arguments=arguments, name=name, folder=folder))
        command = [programs.path("tandemrun"), *_flags(nproc, servers, workers)]
        command += ["--log_dir=" + os.path.join(folder, "log"), "--trainer_bin=" + sys.executable]
        _run([*command, path], lambda row: print(json.dumps(row)), lambda line: print(line, end=""))
        results = []
        for rank in range(count):
            made = os.path.join(folder, f"result.{rank}")
            if not os.path.exists(made):
                raise FailedPreconditionError(f"launch: rank {rank} returned no result [TD7005]")
            with open(made, "rb") as file:
                results.append(pickle.load(file))
        return results
