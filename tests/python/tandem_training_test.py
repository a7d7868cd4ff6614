"""Training from Python gives the bits of the same job. TANDEM_WHOLE_DEMO=1 trains the whole demo."""

import os
import unittest

import numpy
import script
import tandem_case as case
from tandem_case import tandem

JOB = """
name: "lenet"
model { zoo: "lenet" arg { name: "channels" value: "8,16" } }
data { format: "mnist" dir: "/usr/share/datasets/fashion-mnist" }
optimizer { %s }
global_batch_size: 128
epochs: 9
steps_max: %d
threads: 1
eval_every_epochs: 0
seed: %d
"""


def train(optimizer, steps, seed=1, chunk=1):
    """Trains LeNet on Fashion-MNIST. Returns the SHA-256 of the parameters and the last loss."""
    pixels, labels = case.images()
    sampler = tandem.Sampler(len(labels), 128, seed)
    with tandem.program_guard(tandem.Program("lenet")) as (program, startup):
        loss, _ = case.lenet((8, 16))
        optimizer.minimize(loss)
    startup.random_seed = seed
    scope, exe = tandem.Scope(), tandem.Executor(threads=1)
    exe.run(startup, scope=scope)

    def batch(step):
        ids = sampler.batch(step // sampler.steps_per_epoch, step % sampler.steps_per_epoch)
        return {"img": pixels[ids], "label": labels[ids]}

    value = numpy.zeros(1)
    for step in range(0, steps, chunk):
        value, = exe.run(program, batch(step), [loss], scope, iterations=min(chunk, steps - step),
                         before_iteration=(lambda i, s=step: batch(s + i)) if chunk > 1 else None)
    assert scope.step == steps
    return tandem.params_sha256(program, scope), float(value[0])


class SameBits(unittest.TestCase):
    def same(self, settings, optimizer, steps, seed=1, chunk=1):
        job = case.run_job(JOB % (settings, steps, seed))
        sha256, loss = train(optimizer, steps, seed, chunk)
        self.assertEqual(sha256, job["params_sha256"])
        return loss, job

    def test_adam_with_a_schedule(self):
        schedule = tandem.schedules.cosine(0.002, decay_steps=20)
        self.same('type: "adam" learning_rate: 0.002 schedule { kind: COSINE }',
                  tandem.optimizer.Adam(schedule), 20)

    def test_momentum_with_decay_in_calls_of_several_iterations(self):
        optimizer = tandem.optimizer.Momentum(
            0.05, 0.8, use_nesterov=True, regularization=tandem.optimizer.L2Decay(1e-3),
            grad_clip=tandem.optimizer.ClipByNorm(0.5), decay_exclude=[".b"])
        self.same('type: "momentum" learning_rate: 0.05 momentum: 0.8 use_nesterov: true '
                  'l2_decay: 1e-3 clip_norm: 0.5 decay_exclude: ".b"', optimizer, 12, 3, chunk=5)

    @unittest.skipUnless(os.environ.get("TANDEM_WHOLE_DEMO"), "minutes; TANDEM_WHOLE_DEMO=1")
    def test_the_whole_demo(self):
        steps = 9 * 469
        schedule = tandem.schedules.cosine(0.002, decay_steps=steps)
        _, job = self.same('type: "adam" learning_rate: 0.002 schedule { kind: COSINE }',
                           tandem.optimizer.Adam(schedule), steps)
        self.assertGreater(job["accuracy"], 0.9)


class Values(unittest.TestCase):
    def test_dropout_depends_on_seed_and_step(self):
        with tandem.program_guard(tandem.Program()) as (program, startup):
            out = tandem.layers.dropout(tandem.data("x", [None, 100]), 0.5)
        scope, exe = tandem.Scope(), tandem.Executor(threads=1)
        exe.run(startup, scope=scope)

        def kept(seed, step):
            program.random_seed, scope.step = seed, step
            value, = exe.run(program, {"x": numpy.ones((4, 100), numpy.float32)}, [out], scope)
            return value > 0

        first = kept(1, 0)
        self.assertTrue(150 < first.sum() < 250)
        self.assertTrue((kept(1, 0) == first).all())
        self.assertFalse((kept(1, 1) == first).all())
        self.assertFalse((kept(2, 0) == first).all())

    def test_batch_norm_evaluates_with_its_running_statistics(self):
        with tandem.program_guard(tandem.Program()) as (program, startup):
            x = tandem.data("x", [None, 3])
            out = tandem.layers.batch_norm(x, momentum=0.5)
            test = program.clone(for_test=True)
        scope, exe = tandem.Scope(), tandem.Executor(threads=1)
        exe.run(startup, scope=scope)
        feed = {"x": numpy.random.default_rng(0).standard_normal((64, 3)).astype("f4") * 4 + 10}
        before, = exe.run(test, feed, [out.name], scope)
        numpy.testing.assert_allclose(before, feed["x"], rtol=1e-4)
        for _ in range(20):
            exe.run(program, feed, [], scope)
        after, = exe.run(test, feed, [out.name], scope)
        self.assertLess(abs(after.mean()), 0.01)
        self.assertAlmostEqual(float(after.std()), 1.0, places=1)

    def test_the_order_of_samples(self):
        sampler = tandem.Sampler(10, 4)
        self.assertEqual(sampler.steps_per_epoch, 3)
        epoch = numpy.concatenate([sampler.batch(0, step) for step in range(3)])
        self.assertEqual(sorted(epoch[:10]), list(range(10)))
        self.assertEqual(list(epoch[10:]), list(epoch[:2]))
        self.assertNotEqual(list(sampler.batch(1, 0)), list(epoch[:4]))
        self.assertNotEqual(list(tandem.Sampler(10, 4, seed=2).batch(0, 0)), list(epoch[:4]))
        plain = tandem.Sampler(10, 4, shuffle=False, drop_last=True)
        self.assertEqual((plain.steps_per_epoch, list(plain.batch(0, 1))), (2, [4, 5, 6, 7]))
        with self.assertRaisesRegex(IndexError, "step 2: an epoch has 2 steps"):
            plain.batch(0, 2)
        with self.assertRaises(ValueError):
            tandem.Sampler(0, 4)

    def test_parameters_go_out_and_in(self):
        with tandem.program_guard(tandem.Program()) as (program, startup):
            case.mlp()
        scope, other = tandem.Scope(), tandem.Scope()
        tandem.Executor().run(startup, scope=scope)
        path = os.path.join(script.BUILD, "tests", f"params-{os.getpid()}.safetensors")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            tandem.save_params(path, program, scope)
            self.assertEqual(sorted(tandem.load_params(path, other)), sorted(scope.names()))
        finally:
            os.remove(path)
        self.assertEqual(tandem.params_sha256(program, other), tandem.params_sha256(program, scope))
        with self.assertRaises(FileNotFoundError):
            tandem.load_params(path, other)


if __name__ == "__main__":
    script.main()
