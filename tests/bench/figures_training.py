"""Training in one process: against PyTorch, and with amp against the same without."""

import os
import tempfile

import machine
import peer_setup
from runner import HERE, Failed, Runner, compare, progress, run_json

CHECK_STEPS = 20
CHECK_STEPS_OF = {"resnet18_cifar": 5, "resnet50_f32": 3, "resnet50_bf16": 3}  # seconds each
CHECK_RELATIVE = 1e-3  # largest difference between the losses of both sides
CHECK_RELATIVE_BF16 = 5e-2  # both sides round at different places
# ResNet-50 amplifies rounding, for both sides alike
# (docs/project/benchmarks/mixed-precision.md).
CHECK_RELATIVE_OF = {"resnet50_f32": 3e-2}
TUNE_FINALISTS = 3


def check_losses(ours, theirs, who, relative=CHECK_RELATIVE):
    """Largest relative difference of two lists of losses; they must agree and must move."""
    if len(ours) != len(theirs) or not ours:
        raise Failed(f"{who}: {len(theirs)} losses, expected {len(ours)}")
    worst = max(abs(a - b) / max(abs(a), 1e-9) for a, b in zip(ours, theirs))
    if not worst <= relative:
        raise Failed(f"{who}: losses differ by {worst:.2g} relative, at most {relative} is "
                     f"allowed\n  Tandem: {ours}\n  peer:   {theirs}")
    if abs(ours[-1] - ours[0]) < 0.01 * abs(ours[0]):
        raise Failed(f"the loss did not move ({ours[0]} to {ours[-1]}): nothing was compared")
    return worst


def tolerance(name):
    default = CHECK_RELATIVE_BF16 if name.endswith("_bf16") else CHECK_RELATIVE
    return CHECK_RELATIVE_OF.get(name, default)


class TrainingFigures(Runner):
    def torch(self, name, data, threads, seconds, env, variants=""):
        check_steps = CHECK_STEPS_OF.get(name, CHECK_STEPS)
        command = [self.python, os.path.join(HERE, "peer_torch.py"), name, f"--data={data}",
                   f"--threads={threads}", f"--seconds={seconds}", f"--check_steps={check_steps}"]
        if variants:
            command.append("--variants=" + variants)
        return run_json(command, env, "PyTorch " + name)

    def tune_torch(self, name, data, threads, losses):
        """Tries every setting shortly and the best few for as long as a round. Returns the table of
        times, the best (setting, environment, variant), the largest difference of losses, and the
        peer's version."""
        table, order, worst, version = {}, [], 0.0, ""
        for setting, env in peer_setup.settings(self.build_dir, threads):
            progress(f"{name}, {threads} threads: trying the peer with: {setting}")
            result = self.torch(name, data, threads, min(0.5, self.args.seconds), env)
            version = result["version"]
            for variant, one in result["variants"].items():
                if "error" in one:
                    table[f"{setting}: {variant}"] = one["error"]
                    continue
                worst = max(worst, check_losses(losses, one["losses"], f"PyTorch {variant}",
                                                tolerance(name)))
                table[f"{setting}: {variant}"] = round(one["us_per_step"], 2)
                order.append((one["us_per_step"], setting, env, variant))
        if not order:
            raise Failed(f"PyTorch ran with no setting: {table}")
        again = []
        for _, setting, env, variant in sorted(order, key=lambda row: row[0])[:TUNE_FINALISTS]:
            progress(f"{name}, {threads} threads: once more: {variant}, {setting}")
            result = self.torch(name, data, threads, self.args.seconds, env, variant)
            again.append((result["variants"][variant]["us_per_step"], setting, env, variant))
        return table, min(again, key=lambda row: row[0])[1:], worst, version

    def against_torch(self, name, threads, field, per_sample=1):
        """Rounds of both sides. field: us_per_step, or samples_per_s of the runs' results, which is
        given in parts of a sample where it has `per_sample` of them."""
        self.python = peer_setup.torch_python(self.build_dir)
        check_steps = CHECK_STEPS_OF.get(name, CHECK_STEPS)
        with tempfile.TemporaryDirectory(prefix="tandem-bench-") as data:
            first = self.ours(name, threads, 0.1, f"--check_steps={check_steps}",
                              "--export_dir=" + data)
            table, (setting, env, variant), worst, version = self.tune_torch(
                name, data, threads, first["losses"])
            compiled = [self.compiled(name, data, threads, env)]  # fills the compiler's cache
            ours, peer, work = [], [], machine.OtherWork()
            for _ in self.rounds(f"{name}, {threads} threads, peer: {variant}, {setting}"):
                ours.append(self.ours(name, threads, self.args.seconds,
                                      f"--check_steps={check_steps}"))
                one = self.torch(name, data, threads, self.args.seconds, env, variant)
                peer.append(one["variants"][variant])
                worst = max(worst, check_losses(ours[-1]["losses"], peer[-1]["losses"], "PyTorch",
                                                tolerance(name)))
                if "error" not in compiled[-1]:
                    compiled.append(self.compiled(name, data, threads, env))
            others = work.share()
        less = field == "us_per_step"
        limit_us = first["flops_per_step"] / (max(r["sgemm_gflops"] for r in ours) * 1e3)
        batch = first["samples_per_s"] * first["us_per_step"] / 1e6
        of = lambda runs: [r[field] * per_sample for r in runs]
        out = compare(of(ours), of(peer),
                      limit_us if less else batch * per_sample * 1e6 / limit_us, less)
        out["peer_name"] = f"PyTorch {version} eager, {threads} threads, {variant}, {setting}"
        out["limit_name"] = "the products of the step at the speed of a 1024^3 sgemm"
        out["loss_difference"] = worst
        out["others_share"] = round(others, 3)
        out["peer_settings_us"] = table
        if "error" in compiled[-1]:
            out["torch_compile"] = compiled[-1]["error"]
        else:
            beside = compare(of(ours), of(compiled[1:]), 0, less)
            out["torch_compile"] = {"peer": beside["peer"], "ratio": beside["ratio"],
                                    "spread": beside["spread"]["peer"]}
        return out

    def compiled(self, name, data, threads, env):
        """One run of the peer through torch.compile, or {"error": why there is none}."""
        variant = "compile+fused"
        try:
            return self.torch(name, data, threads, self.args.seconds, env, variant)[
                "variants"][variant]
        except Failed as error:
            return {"error": str(error).splitlines()[0]}

    def mlp40_step(self):
        return self.against_torch("mlp40_step", 1, "us_per_step")

    def lenet_train(self):
        out = self.against_torch("lenet_train", 2, "samples_per_s")
        out["one_thread"] = self.against_torch("lenet_train", 1, "samples_per_s")
        return out

    def deepfm_dense(self):
        return self.against_torch("deepfm_dense", 2, "samples_per_s")

    def transformer_lm(self):
        return self.against_torch("transformer_lm", 2, "samples_per_s", per_sample=128)

    def bert_base(self):
        return self.against_torch("bert_base", 2, "samples_per_s", per_sample=128)

    def bert_base_512(self):
        return self.against_torch("bert_base_512", 2, "samples_per_s", per_sample=512)

    def resnet18_cifar(self):
        return self.against_torch("resnet18_cifar", 2, "samples_per_s")

    def resnet50_f32(self):
        return self.against_torch("resnet50_f32", 2, "samples_per_s")

    def resnet50_bf16(self):
        return self.against_torch("resnet50_bf16", 2, "samples_per_s")

    # ---- Mixed precision against the same network in f32 ----

    def against_f32(self, name, per_sample=1):
        """Rounds of `name` with amp and without."""
        halves, wholes, worst, work = [], [], 0.0, machine.OtherWork()
        steps = f"--check_steps={CHECK_STEPS_OF.get(name, CHECK_STEPS)}"
        for _ in self.rounds(name):
            halves.append(self.ours(name + "_bf16", 2, self.args.seconds, steps))
            wholes.append(self.ours(name, 2, self.args.seconds, steps))
            worst = max(worst, check_losses(halves[-1]["losses"], wholes[-1]["losses"], "f32",
                                            CHECK_RELATIVE_BF16))
        others = work.share()
        of = lambda runs: [r["samples_per_s"] * per_sample for r in runs]
        out = compare(of(halves), of(wholes), 0, lower_is_better=False)
        out["peer_name"] = "the same in f32, 2 threads"
        out["limit_name"] = "none: bf16 products run at several times the speed of f32 ones"
        out["loss_difference"] = worst
        out["others_share"] = round(others, 3)
        return out

    def transformer_lm_bf16(self):
        return self.against_f32("transformer_lm", per_sample=128)

    def resnet18_cifar_bf16(self):
        return self.against_f32("resnet18_cifar")
