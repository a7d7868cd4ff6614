"""Checks of one combination: it is refused with a reason, or it runs, has the promised bits or a loss
near that of a plain job, resumes, can be exported, and leaves nothing."""

import dataclasses
import math
import os
import random
import re
import shutil

import jobs
import promises

REFUSAL_SECONDS = 20
_SETTINGS = ("TD11", "TD12")  # codes of settings and of programs (docs/reference/error-codes.md)


@dataclasses.dataclass
class Finding:
    kind: str  # a minimised combination must have a finding of the same kind
    text: str


@dataclasses.dataclass
class Verdict:
    ran: bool = False
    code: str = ""  # error code of a refusal
    hint: bool = False  # the refusal says what to do
    findings: list = dataclasses.field(default_factory=list)
    checked: list = dataclasses.field(default_factory=list)  # names of the checks that were made
    seconds: float = 0


def _finite(number):
    return isinstance(number, (int, float)) and math.isfinite(number)


class Checker:
    """Runs combinations and checks them. `share`: share of combinations with the costly checks."""

    def __init__(self, bin_folder, data_folder, generator, share=0.4, parent=None):
        self.bin, self.data, self.share, self.parent = bin_folder, data_folder, share, parent
        self._knobs = {knob.name: knob for knob in generator.knobs}

    def fits(self, knob, mode):
        return knob not in self._knobs or self._knobs[knob].fits(mode)

    def check(self, one, seed=0):
        verdict, rng = Verdict(), random.Random(seed)
        with jobs.Folder(self.bin, self.data, self.parent) as folder:
            measures = promises.is_on(one, "runtime_flags.reader_queue_speed_test_mode")
            outcome = folder.run(one, "" if measures else "ck")
            verdict.ran, verdict.seconds = outcome.ran, outcome.seconds
            self.ending(one, outcome, verdict)
            self._lint(one, folder, outcome, verdict)
            if outcome.ran:
                self._result(one, outcome, verdict)
                self._bits(one, folder, outcome, verdict, rng)
                self._loss(one, folder, outcome, verdict, rng)
                if rng.random() < self.share:
                    self._export(folder, verdict)
                if rng.random() < self.share:
                    self._resume(one, folder, outcome, verdict, rng)
        return verdict

    @staticmethod
    def _add(verdict, kind, text):
        verdict.findings.append(Finding(kind, text))

    def ending(self, one, outcome, verdict):
        """How the job ended, and what is left of it."""
        lines = outcome.output[-2500:]
        for thing in outcome.left:
            self._add(verdict, "left " + thing.split()[0], thing)
        if outcome.crash:
            self._add(verdict, "crash", f"exit code {outcome.code}: {outcome.crash}\n{lines}")
        elif outcome.code == -1:
            self._add(verdict, "hang", f"still running after {jobs.DEADLINE_S} s\n{lines}")
        elif outcome.code >= 128 or outcome.code < 0:
            self._add(verdict, "crash", f"exit code {outcome.code}\n{lines}")
        elif not outcome.ran:
            codes = re.findall(r"\[(TD\d{4})\]", outcome.output)
            verdict.code = codes[0] if codes else ""
            verdict.hint = bool(re.search(r"^hint: |; hint: ", outcome.output, re.M))
            if not codes:
                self._add(verdict, "no code", f"exit code {outcome.code} without a code\n{lines}")
            elif not outcome.refused and not _may_fail(one, outcome):
                self._add(verdict, f"failed {verdict.code}",
                          f"exit code {outcome.code} is no refusal\n{lines}")
            elif outcome.seconds > REFUSAL_SECONDS:
                self._add(verdict, "slow refusal", f"{outcome.seconds:.0f} s\n{lines}")

    def _lint(self, one, folder, outcome, verdict):
        """tandem lint refuses no job that runs, and every job whose settings the trainer refuses."""
        if one.as_flags or one.knobs.get("elastic"):
            return
        if promises.is_on(one, "pipeline") and one.ranks == 1:
            return  # lint with one worker checks a pipeline for any number of ranks
        verdict.checked.append("lint")
        code, output = folder.lint(one)
        if code not in (0, 2):
            self._add(verdict, "lint crash", f"tandem lint ended with {code}\n{output[-1500:]}")
        elif code == 2 and outcome.ran:
            self._add(verdict, "lint refuses", f"a job that runs\n{output[-1500:]}")
        elif code == 0 and outcome.code == 2 and "tandem-trainer: error" in outcome.output and \
                "tandem-trainer: error: pserver " not in outcome.output and \
                verdict.code.startswith(_SETTINGS) and not one.launch:
            self._add(verdict, f"lint passes {verdict.code}", outcome.output[-1500:])

    def _result(self, one, outcome, verdict):
        if not outcome.result:
            self._add(verdict, "no result", "exit code 0 without --result_json")
        elif outcome.result.get("steps") != jobs.STEPS:
            self._add(verdict, "steps", f"{outcome.result.get('steps')} instead of {jobs.STEPS}")
        measures = promises.is_on(one, "runtime_flags.reader_queue_speed_test_mode")
        if promises.is_on(one, "runtime_flags.check_nan_inf") and not measures \
                and not _finite(outcome.loss):
            self._add(verdict, "nan", f"check_nan_inf, and the loss is {outcome.loss}")

    def _bits(self, one, folder, outcome, verdict, rng):
        """All promised bits for the first reference, and for one of the others."""
        found = promises.references(one, self.fits)
        for reason, other in found[:1] + (rng.sample(found[1:], 1) if len(found) > 1 else []):
            reference = folder.run(other)
            if reference.refused and reason.startswith("the same settings"):
                self._add(verdict, "reference refused", f"{reason}\n{reference.output[-1500:]}")
            if not reference.ran:
                continue
            verdict.checked.append("bits")
            if reference.sha != outcome.sha:
                self._add(verdict, "bits: " + reason.split(" without")[0],
                          f"{outcome.sha[:12]} (loss {outcome.loss}), but {reference.sha[:12]} (loss "
                          f"{reference.loss}) with {reason}: {other.to_json()}")

    def _loss(self, one, folder, outcome, verdict, rng):
        if "bits" in verdict.checked and rng.random() > self.share / 4:
            return
        reference = folder.run(promises.plain_job(one))
        if not reference.ran or not _finite(reference.loss):
            return
        verdict.checked.append("loss")
        if not _finite(outcome.loss):
            if promises.loss_is_comparable(one):
                self._add(verdict, "loss", f"{outcome.loss}; a plain job has {reference.loss}")
        elif promises.loss_is_comparable(one):
            # Old gradients may lead away for some steps, but not far.
            slack = 0.25 if promises.synchronous(one) else 100
            if abs(outcome.loss - reference.loss) > slack + 0.4 * abs(reference.loss):
                self._add(verdict, "loss", f"{outcome.loss}; a plain job has {reference.loss}")

    def _export(self, folder, verdict):
        if not os.path.isdir(folder.file("ck")) or not os.listdir(folder.file("ck")):
            return
        verdict.checked.append("export")
        code, output = folder.export("ck")
        if code != 0:
            self._add(verdict, "export", f"tandem export ended with {code}\n{output[-1500:]}")
            return
        import numpy  # pylint: disable=import-outside-toplevel
        with numpy.load(folder.file("all.npz")) as arrays:
            if not arrays.files or any(arrays[name].dtype.hasobject for name in arrays.files):
                self._add(verdict, "export", "the file has no arrays")

    def _resume(self, one, folder, outcome, verdict, rng):
        """A job that continues from the whole job's first checkpoint ends with the same bits, also as
        another job with the same bits: in another mode, with another number of servers or ranks."""
        if not promises.resumable(one) or "checkpoint.every_steps" in one.job:
            return
        middle = str(jobs.STEPS // 2)
        saving = one.copy(job={**one.job, "checkpoint.every_steps": middle, "checkpoint.keep": "10"})
        whole = folder.run(saving, "whole")
        if not whole.ran:
            self._add(verdict, "checkpoints", f"exit code {whole.code}\n{whole.output[-1500:]}")
            return
        saved = sorted(name for name in os.listdir(folder.file("whole")) if name.startswith("step-"))
        if len(saved) < 2:
            self._add(verdict, "checkpoints", f"no checkpoint between begin and end: {saved}")
            return
        for name in saved[1:]:
            shutil.rmtree(folder.file(os.path.join("whole", name)))
        others = promises.references(saving, self.fits)[1:]
        reason, other = rng.choice(others) if others and rng.random() < 0.6 else ("itself", saving)
        rest = folder.run(other.copy(job={**other.job, "checkpoint.every_steps": middle}), "whole")
        if rest.refused and other is not saving:
            return
        verdict.checked.append("resume" if other is saving else "resume elsewhere")
        if not rest.ran:
            self._add(verdict, "resume", f"exit code {rest.code}\n{rest.output[-2500:]}")
        elif rest.sha != whole.sha or whole.sha != outcome.sha:
            self._add(verdict, f"resume bits: {reason}",
                      f"whole {outcome.sha[:12]}, with checkpoints {whole.sha[:12]}, resumed "
                      f"{rest.sha[:12]} (loss {outcome.loss}, {whole.loss}, {rest.loss}) as "
                      f"{other.to_json()}")
        for thing in whole.left + rest.left:
            self._add(verdict, "left " + thing.split()[0], thing)


def _may_fail(one, outcome):
    """Failures that are no refusal but follow from the settings: a directory that is not there, numbers
    that overflow where a check stops the job."""
    strict = ("runtime_flags.check_nan_inf", "runtime_flags.nonfinite_gradients")
    if any(name in one.knobs for name in strict) and re.search("nan|inf", outcome.output, re.I):
        return True
    return any("no/such" in value for value in promises.settings_of(one).values())
