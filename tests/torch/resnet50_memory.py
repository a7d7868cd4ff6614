"""Peak memory of ResNet-50 training, batch 16 of 3 x 224 x 224 images, momentum: Tandem against PyTorch.

Tandem: what its trainer holds at most, program and data included. PyTorch: what its process holds at
most beyond what it holds once torch has been imported, with the better of two memory layouts and
gradients set to none.

usage: resnet50_memory.py --build=DIR
Exit codes: 0 at most BAR of PyTorch's, 1 more, 77 torch is missing.
"""

import argparse
import os
import subprocess
import sys
import tempfile

import job_run

BATCH, CLASSES, STEPS = 16, 1000, 2
BAR = 0.8

# Only the outputs of the convolutions are kept from forward; normalisation and relu are computed
# again.
CHECKPOINTS = "".join(f' checkpoints: "conv_{i}.out"' for i in range(53))
JOB = f"""
name: "resnet50"
model {{ zoo: "resnet50" arg {{ name: "classes" value: "{CLASSES}" }} }}
data {{ format: "synthetic" synthetic {{ samples: {BATCH * STEPS} test_samples: {BATCH} }} }}
optimizer {{ type: "momentum" learning_rate: 0.01 momentum: 0.9 }}
strategy {{
  %s
  build_strategy {{
    fuse_bn_act_ops: true
    enable_inplace: true
    enable_addto: true
    enable_backward_optimizer_op_deps: false
  }}
}}
batch_size: {BATCH}
"""
SETTINGS = {"plain": "", "recompute": f"recompute: true recompute_configs {{{CHECKPOINTS} }}"}


def status_mb(field):
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(field):
                return int(line.split()[1]) * 1024 / 1e6
    return sys.exit(f"no {field} in /proc/self/status")


def peer(layout):
    """Trains a few steps and prints the growth of this process."""
    try:
        import torch
        from torch.nn import functional as F
    except ImportError as error:
        print(f"skipped: {error}")
        sys.exit(job_run.EXIT_SKIPPED)
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
    import peer_torch
    before = status_mb("VmRSS")
    memory_format = getattr(torch, layout)
    model = peer_torch.resnet([3, 4, 6, 3], True, 7, CLASSES).to(memory_format=memory_format)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x = torch.randn(BATCH, 3, 224, 224).contiguous(memory_format=memory_format)
    y = torch.arange(BATCH)
    for _ in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    print(status_mb("VmHWM") - before)


def theirs():
    best = None
    for layout in ("contiguous_format", "channels_last"):
        done = subprocess.run([sys.executable, "-B", os.path.abspath(__file__), "--peer=" + layout],
                              capture_output=True, text=True, timeout=250, check=False)
        if done.returncode == job_run.EXIT_SKIPPED:
            print(done.stdout, end="")
            sys.exit(job_run.EXIT_SKIPPED)
        if done.returncode != 0:
            sys.exit(done.stderr)
        best = min(best or 1e9, float(done.stdout))
    return best


def ours(build, folder, setting):
    path = os.path.join(folder, "job.pbtxt")
    with open(path, "w", encoding="utf-8") as file:
        file.write(JOB % SETTINGS[setting])
    child = subprocess.Popen([os.path.join(build, "bin", "tandem-trainer"), "--job_file=" + path,
                              f"--steps_max={STEPS}", "--eval_every_epochs=0"],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    output = child.stdout.read()
    _, state, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(state)
    if child.returncode != 0:
        sys.exit(output[-2000:])
    return usage.ru_maxrss * 1024 / 1e6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build")
    parser.add_argument("--peer")
    args = parser.parse_args()
    if args.peer:
        peer(args.peer)
        return 0
    limit = theirs()
    with tempfile.TemporaryDirectory(prefix="tandem-torch-") as folder:
        taken = {setting: ours(args.build, folder, setting) for setting in SETTINGS}
    for setting, mb in taken.items():
        print(f"{setting}: {mb:.0f} MB, PyTorch {limit:.0f} MB: {mb / limit:.2f}")
    return 0 if min(taken.values()) <= BAR * limit else 1


if __name__ == "__main__":
    sys.exit(main())
