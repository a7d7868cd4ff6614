"""Whole jobs for figures: processes started together, and what their rank 0 says at the end."""

import json
import os
import subprocess

from runner import RUN_TIMEOUT_S, Failed


def run_together(commands, folder):
    """Runs all at once; what a failing one wrote is in the error."""
    logs = [open(os.path.join(folder, f"{i}.log"), "w+", encoding="utf-8")
            for i in range(len(commands))]
    started = [subprocess.Popen(command, stdout=log, stderr=log)
               for command, log in zip(commands, logs)]
    try:
        codes = [process.wait(timeout=RUN_TIMEOUT_S) for process in started]
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{commands[0][0]} did not end within {RUN_TIMEOUT_S} s") from error
    finally:
        for process in started:
            process.kill()
    for code, command, log in zip(codes, commands, logs):
        if code != 0:
            log.seek(0)
            raise Failed(f"{' '.join(command)} ended with {code}:\n{log.read()[-2000:]}")
        log.close()


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def run_job(bin_dir, launch, job, folder, args=()):
    """The result of a job run by tandemrun, `args` being its trainers'; its log and its checkpoints
    lie in `folder`."""
    path = os.path.join(folder, "result.json")
    run_together([[os.path.join(bin_dir, "tandemrun"), *launch, "--quiet",
                   f"--log_dir={folder}/log", job, "--", f"--result_json={path}", *args]], folder)
    return read_json(path)
