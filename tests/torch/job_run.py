"""Runs a job of Tandem's for a comparison with PyTorch."""

import json
import os
import subprocess
import sys

import safetensors_io

EXIT_SKIPPED = 77
RELATIVE = 1e-3  # largest difference of a loss


class Trainer:
    """`job`: the text of a job file, whose optimizer is replaced; its data lie in `data`."""

    def __init__(self, build, folder, job, data):
        self.program = os.path.join(build, "bin", "tandem-trainer")
        self.folder, self.data = folder, os.path.abspath(data)
        start = job.index("optimizer {")
        end, depth = start, 0
        for end in range(start, len(job)):
            depth += {"{": 1, "}": -1}.get(job[end], 0)
            if depth == 0 and job[end] == "}":
                break
        self.job = job[:start] + job[end + 1:]

    def losses(self, optimizer, steps, *flags):
        """The losses of the first steps, without shuffling."""
        path = os.path.join(self.folder, "job.pbtxt")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.job + f"\noptimizer {{ {optimizer} }}\n")
        command = [self.program, "--job_file=" + path, "--data.dir=" + self.data,
                   "--data.shuffle=false", "--log_format=json", "--log_every_steps=1",
                   "--eval_every_epochs=0", f"--steps_max={steps}", *flags]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
        return [line["loss"] for line in lines if "step" in line]

    def first_parameters(self):
        """Arrays by name: a step too short to change a bit, and its checkpoint."""
        checkpoints = os.path.join(self.folder, "first")
        self.losses('type: "sgd" learning_rate: 1e-30', 1, "--checkpoint.dir=" + checkpoints)
        for path, _, files in os.walk(checkpoints):
            if "model.safetensors" in files:
                return safetensors_io.read(os.path.join(path, "model.safetensors"))
        return sys.exit("no checkpoint of the first parameters")


def torch_losses(optimizer, batches, loss_of, before_step=None):
    """What Trainer.losses gives, of a PyTorch model: loss_of(*batch) is a step's loss."""
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = loss_of(*batch)
        loss.backward()
        if before_step is not None:
            before_step()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def same(name, ours, theirs):
    """Prints how far the two go apart; whether that is near enough, and anything is learnt."""
    if len(ours) != len(theirs):
        sys.exit(f"{name}: {len(ours)} losses, expected {len(theirs)}")
    worst = max(abs(a - b) / b for a, b in zip(ours, theirs))
    fifth = len(ours) // 5  # the losses of single steps go up and down
    first, last = sum(ours[:fifth]) / fifth, sum(ours[-fifth:]) / fifth
    learnt = last < 0.95 * first
    print(f"{name}: loss {first:.6f} to {last:.6f}, largest difference {worst:.2g}"
          f"{'' if learnt else '; it learns nothing'}")
    return worst <= RELATIVE and learnt
