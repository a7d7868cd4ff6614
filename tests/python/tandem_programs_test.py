"""Programs that Python builds: the zoo's networks, every operator, text, names and errors."""

import inspect
import os
import tempfile
import threading
import unittest

import numpy
import script
import tandem_case as case
from tandem_case import tandem

layers, ops = tandem.layers, tandem.ops


def in_new_program(name="main"):
    return tandem.program_guard(tandem.Program(name))


class Zoo(unittest.TestCase):
    """The same network in Python and in the zoo is the same program."""

    maxDiff = 2000

    def same(self, program, model, **args):
        zoo = tandem.models.build(model, **args)
        self.assertEqual(str(program), str(zoo))
        self.assertEqual(program.to_text(), zoo.to_text())

    def test_lenet(self):
        with in_new_program("lenet") as (program, _):
            case.lenet((8, 16))
        self.same(program, "lenet", channels="8,16")

    def test_mlp(self):
        with in_new_program("mlp") as (program, _):
            x = tandem.data("img", [None, 1, 28, 28])
            label = tandem.data("label", [None, 1], "int64")
            for size in (256, 256):
                x = layers.fc(x, size, act="relu")
            logits = layers.fc(x, 10)
            layers.softmax_loss(logits, label)
            layers.accuracy(logits, label)
        self.same(program, "mlp")

    def test_vgg_with_batch_norm(self):
        with in_new_program("vgg16") as (program, _):
            x = tandem.data("img", [None, 3, 32, 32])
            label = tandem.data("label", [None, 1], "i64")
            for channels, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
                for _ in range(count):
                    x = layers.conv2d(x, channels, 3, padding=1, bias_attr=False)
                    x = layers.batch_norm(x, act="relu")
                x = layers.pool2d(x)
            for size in (64, 64):
                x = layers.fc(x, size, act="relu")
            logits = layers.fc(x, 10)
            layers.softmax_loss(logits, label)
            layers.accuracy(logits, label)
        self.same(program, "vgg16", image="3,32,32", hidden="64,64")

    def test_word2vec(self):
        first, limit = tandem.initializer, 0.5 / 100
        with in_new_program("word2vec") as (program, _):
            center, target, label = (
                tandem.data(name, [None, 6], "i64") for name in ("center", "target", "label"))
            words = layers.embedding(center, (10000, 100), is_sparse=True,
                                     param_attr=first.Uniform(-limit, limit))
            others = layers.embedding(target, (10000, 100), is_sparse=True,
                                      param_attr=first.Constant())
            products = layers.reshape(words * others, [-1, 100, 1])
            flat = layers.reshape(label, [-1, 1])
            _, share = layers.sigmoid_loss(layers.sequence_pool(products, "sum"), flat)
            layers.auc(share, flat)
        self.same(program, "word2vec")

    def test_transformer_lm(self):
        width, heads, steps, rate, words = 8, 2, 4, 0.1, 30

        def attention(x):
            rows = layers.reshape(layers.fc(x, 3 * width), [-1, steps, 3, heads, width // heads])
            query, key, value = layers.split(layers.transpose(rows, [2, 0, 3, 1, 4]), 3, axis=0)
            scores = ops.matmul(query, key, trans_y=True, alpha=(width // heads) ** -0.5)
            weights = layers.dropout(ops.softmax(scores, causal=True), rate)
            mixed = layers.transpose(ops.matmul(weights, value), [0, 1, 3, 2, 4])
            return layers.dropout(layers.fc(layers.reshape(mixed, [-1, width]), width), rate)

        def feed_forward(x):
            hidden = layers.gelu(layers.fc(x, 4 * width))
            return layers.dropout(layers.fc(hidden, width), rate)

        with in_new_program("transformer_lm") as (program, _):
            ids = tandem.data("ids", [None, steps], "i64")
            label = tandem.data("label", [None, steps], "i64")
            tokens = layers.embedding(ids, (words, width))
            places = program.create_parameter(
                "position.w", [steps, width], tandem.initializer.Normal(0.0, 0.02))
            x = layers.dropout(layers.reshape(tokens + places, [-1, width]), rate)
            for _ in range(2):
                x = x + attention(layers.layer_norm(x))
                x = x + feed_forward(layers.layer_norm(x))
            logits = layers.fc(layers.layer_norm(x), words)
            following = layers.reshape(label, [-1, 1])
            layers.softmax_loss(logits, following)
            layers.accuracy(logits, following)
        self.same(program, "transformer_lm", layers=2, width=width, heads=heads, sequence=steps,
                  dropout=rate, vocabulary=words)

    def test_resnet(self):
        def norm(x, channels, kernel, stride=1, act=None):
            y = layers.conv2d(x, channels, kernel, stride, kernel // 2, bias_attr=False)
            return layers.batch_norm(y, act)

        with in_new_program("resnet18") as (program, _):
            image = tandem.data("img", [None, 3, 32, 32])
            label = tandem.data("label", [None, 1], "i64")
            x = norm(image, 64, 3, act="relu")
            for stage in range(4):
                for block in range(2):
                    stride = 2 if block == 0 and stage > 0 else 1
                    y = norm(norm(x, 64 << stage, 3, stride, "relu"), 64 << stage, 3)
                    if block == 0 and stage > 0:
                        x = norm(x, 64 << stage, 1, stride)
                    x = layers.relu(y + x)
            logits = layers.fc(layers.pool2d(x, pool_type="avg", global_pooling=True), 10)
            layers.softmax_loss(logits, label)
            layers.accuracy(logits, label)
        self.same(program, "resnet18", image="3,32,32", stem=3)

    def test_layers_continue_the_names_of_a_zoo_program(self):
        program = tandem.models.build("softmax")
        with tandem.program_guard(program):
            out = layers.fc(program.var("img"), 3)
        self.assertEqual(out.name, "fc_1.out")
        with tandem.program_guard(tandem.models.build("mlp")) as (program, _):
            self.assertEqual(layers.relu(program.var("fc_2.out")).name, "relu_2.out")


class Operators(unittest.TestCase):
    def test_each_operator_is_a_function_with_its_slots_and_attributes(self):
        table = tandem._core.op_table()
        self.assertGreater(len(table), 90)
        for row in table:
            if row.has_body:
                continue
            with self.subTest(row.type):
                function = getattr(ops, row.type)
                parameters = inspect.signature(function).parameters
                wanted = [tandem.operators.argument_name(slot.name) for slot in row.inputs]
                wanted += [tandem.operators.argument_name(attr.name) for attr in row.attrs]
                self.assertEqual(list(parameters), wanted + ["outputs", "run_if"])
                self.assertIn(row.doc, function.__doc__)

    def test_values(self):
        x = numpy.array([[-1.0, 2.0, 0.5], [3.0, -4.0, 1.0]], numpy.float32)
        cases = {
            "relu": (lambda v: ops.relu(v), numpy.maximum(x, 0)),
            "scale": (lambda v: ops.scale(v, scale=2, bias=1), 2 * x + 1),
            "reduce_sum": (lambda v: ops.reduce_sum(v, dim=[1]), x.sum(1)),
            "transpose": (lambda v: ops.transpose(v, axis=[1, 0]), x.T),
            "add": (lambda v: v + v, x + x),
            "number": (lambda v: (v - 1.0) * 3, (x - 1) * 3),
            "concat": (lambda v: ops.concat([v, v], axis=1), numpy.concatenate([x, x], 1)),
        }
        for name, (make, expected) in cases.items():
            with self.subTest(name), in_new_program() as (program, _):
                out = make(tandem.data("x", [2, 3]))
                got, = tandem.Executor(threads=1).run(
                    program, {"x": x}, [out], scope=tandem.Scope())
                numpy.testing.assert_allclose(got, expected, rtol=1e-6)

    def test_wrong_calls(self):
        with in_new_program():
            x = tandem.data("x", [2, 3])
            with self.assertRaisesRegex(ValueError, "relu: missing a required argument: 'X'"):
                ops.relu()
            with self.assertRaisesRegex(ValueError, r"scale: attribute \"scale\" is 'a', expected float"):
                ops.scale(x, scale="a")
            with self.assertRaisesRegex(ValueError, "relu: got an unexpected keyword argument 'axi'"):
                ops.relu(x, axi=1)
            with self.assertRaisesRegex(ValueError, "number of variables in output slot Out"):
                ops.split(x, axis=1, num=3)
            with self.assertRaisesRegex(ValueError, "TD1206"):
                ops.relu(3)
            with self.assertRaisesRegex(ValueError, "does not fit 64 bits"):
                ops.transpose(x, axis=[1, 1 << 70])
            with self.assertRaises(TypeError):
                tandem.data("y", [2.5])
        self.assertRaises(AttributeError, lambda: ops.rellu)

    def test_a_message_names_the_line_of_the_script(self):
        with in_new_program():
            x = tandem.data("x", [2, 3])
            with self.assertRaises(tandem.errors.InvalidArgumentError) as caught:
                ops.matmul(x, x)
        self.assertRegex(str(caught.exception), r"tandem_programs_test\.py:\d+")
        self.assertEqual(caught.exception.code, "TD1207")


class Names(unittest.TestCase):
    def test_parameters_have_given_names_and_are_shared(self):
        with in_new_program() as (program, _):
            x = tandem.data("x", [None, 4])
            y = layers.fc(x, 4, param_attr="shared", bias_attr=False)
            layers.fc(y, 4, param_attr=tandem.ParamAttr("shared"), bias_attr=False)
            with self.assertRaisesRegex(ValueError, 'parameter "shared" has the shape'):
                layers.fc(y, 5, param_attr="shared")
        self.assertEqual([p.name for p in program.all_parameters()], ["shared"])

    def test_initialisers(self):
        first = tandem.initializer
        with in_new_program() as (program, startup):
            x = tandem.data("x", [None, 200])
            layers.fc(x, 200, param_attr=first.Constant(2.5), bias_attr=first.Uniform(-3, -2))
            layers.fc(x, 200, param_attr=first.Normal(5.0, 0.1))
        scope = tandem.Scope()
        startup.random_seed = 7
        tandem.Executor().run(startup, scope=scope)
        self.assertTrue((scope.get("fc_0.w") == 2.5).all())
        bias = scope.get("fc_0.b")
        self.assertTrue(((bias >= -3) & (bias < -2)).all())
        self.assertAlmostEqual(float(scope.get("fc_1.w").mean()), 5.0, places=2)
        self.assertEqual([p.name for p in program.all_parameters()],
                         ["fc_0.w", "fc_0.b", "fc_1.w", "fc_1.b"])

    def test_op_device(self):
        with in_new_program() as (program, _):
            x = tandem.data("x", [None, 4])
            with tandem.op_device("gpu:1"):
                layers.fc(x, 2)
            layers.fc(x, 2)
        devices = [op["attrs"].get("op_device") for op in program.list_ops()]
        self.assertEqual(devices, ["gpu:1", None])
        with tandem.program_guard(tandem.Program()):
            x = tandem.data("x", [None, 4])
            with self.assertRaisesRegex(ValueError, "TD1"), tandem.op_device("tpu"):
                layers.fc(x, 2)


class Text(unittest.TestCase):
    def test_saved_and_loaded_programs_are_the_same(self):
        with in_new_program("saved") as (program, _):
            case.lenet()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "lenet.pbtxt")
            program.save(path)
            loaded = tandem.load_program(path)
            self.assertEqual(loaded.to_text(), program.to_text())
            self.assertEqual(str(loaded), str(program))
            with self.assertRaises(FileNotFoundError) as caught:
                tandem.load_program(path + "x")
            self.assertEqual(caught.exception.code, "TD1008")
            with open(path, "a", encoding="utf-8") as file:
                file.write("metricc: 3\n")
            with self.assertRaisesRegex(ValueError, "lenet.pbtxt:.*metricc"):
                tandem.load_program(path)
        self.assertIn("conv2d(Input=img, Filter=conv_0.w", str(program))
        self.assertTrue(program.draw().startswith("digraph"))

    def test_the_evaluation_form(self):
        with in_new_program() as (program, _):
            layers.dropout(tandem.data("x", [None, 4]), 0.5)
        test = program.clone(for_test=True)
        self.assertTrue(test.list_ops()[0]["attrs"]["is_test"])
        self.assertNotIn("is_test", program.list_ops()[0]["attrs"])


class Guards(unittest.TestCase):
    def test_a_layer_outside_the_guard_of_its_variable(self):
        with in_new_program("net"):
            x = tandem.data("x", [None, 4])
        with self.assertRaises(tandem.errors.FailedPreconditionError) as caught:
            layers.fc(x, 2)
        self.assertIn('"x" belongs to program "net"', str(caught.exception))
        self.assertIn("program_guard", caught.exception.hint)
        self.assertEqual(tandem.default_main_program().core.names("param"), [])

    def test_a_layer_outside_a_guard_in_a_thread(self):
        raised = []

        def work():
            try:
                tandem.data("x", [None, 4])
            except tandem.Error as error:
                raised.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        self.assertIsInstance(raised[0], RuntimeError)
        self.assertIn("only the main thread has a default program", str(raised[0]))

    def test_a_startup_program_belongs_to_one_program(self):
        startup = tandem.StartupProgram()
        with tandem.program_guard(tandem.Program("one"), startup):
            pass
        with self.assertRaisesRegex(RuntimeError, 'belongs to program "one"'):
            with tandem.program_guard(tandem.Program("two"), startup):
                pass


class Optimizers(unittest.TestCase):
    def test_each_optimizer_of_the_library_has_a_class(self):
        classes = [getattr(tandem.optimizer, name) for name in tandem.optimizer.__all__]
        kinds = set()
        for kind in classes:
            if not isinstance(kind, type) or not issubclass(kind, tandem.optimizer.Optimizer):
                continue
            if kind is tandem.optimizer.Optimizer:
                continue
            with in_new_program() as (program, _):
                loss = case.mlp()
                optimizer = kind(learning_rate=0.1)
                grads = optimizer.minimize(loss)
            kinds.add(optimizer.kind)
            self.assertEqual([g.grad.name for g in grads][0], grads[0].param.grad_name)
            self.assertEqual(program.list_ops()[-1]["role"], "optimize")
        self.assertEqual(kinds, set(tandem._core.optimizer_types()))

    def test_attributes_are_those_of_the_operator(self):
        for name in tandem.optimizer.__all__:
            kind = getattr(tandem.optimizer, name)
            if name == "Optimizer" or not isinstance(kind, type):
                continue
            if not issubclass(kind, tandem.optimizer.Optimizer):
                continue
            names = list(inspect.signature(kind).parameters)
            numbers = [n for n in names if n not in ("learning_rate", "regularization", "grad_clip",
                                                     "decay_exclude", "use_nesterov", "lazy_mode",
                                                     "centered")]
            with self.subTest(name), in_new_program():
                kind(learning_rate=0.1, **{n: 0.25 for n in numbers}).minimize(case.mlp())

    def test_decay_and_clips_change_the_gradients(self):
        with in_new_program() as (program, _):
            loss = case.mlp()
            tandem.optimizer.SGD(0.1, tandem.optimizer.L2Decay(0.01),
                                 tandem.optimizer.ClipByGlobalNorm(1.0), [".b"]).minimize(loss)
        kinds = [op["type"] for op in program.list_ops()]
        self.assertIn("clip_by_global_norm", kinds)
        self.assertEqual(kinds.count("regularize"), 2)
        with in_new_program():
            loss = case.mlp()
            tandem.optimizer.SGD(0.1).minimize(loss)
            with self.assertRaisesRegex(RuntimeError, "already has an optimizer"):
                tandem.optimizer.SGD(0.1).minimize(loss)
        with in_new_program(), self.assertRaisesRegex(ValueError, 'did you mean "adam"'):
            tandem.optimizer.Optimizer("adaam", 0.1).minimize(case.mlp())

    def test_schedules(self):
        schedules = tandem.schedules
        self.assertAlmostEqual(schedules.cosine(0.5, decay_steps=10).at(5), 0.25, places=6)
        self.assertAlmostEqual(schedules.constant(0.5, warmup_steps=10).at(5), 0.25, places=6)
        piecewise = schedules.piecewise(1.0, [10, 20], [1.0, 0.5, 0.25])
        self.assertEqual([piecewise.at(step) for step in (9, 10, 25)], [1.0, 0.5, 0.25])
        self.assertAlmostEqual(schedules.exponential(1.0, 10, 0.5).at(10), 0.5, places=6)
        self.assertAlmostEqual(schedules.polynomial(1.0, 10, power=2.0).at(5), 0.25, places=6)
        self.assertAlmostEqual(schedules.polynomial(1.0, 10, 0.5).at(5), 0.75, places=6)
        self.assertAlmostEqual(schedules.cosine(1.0, 10, 0.5).at(5), 0.75, places=6)
        staircase = schedules.exponential(1.0, 10, 0.5, staircase=True)
        self.assertEqual([staircase.at(step) for step in (9, 10)], [1.0, 0.5])
        with self.assertRaisesRegex(ValueError, "TD1"):
            schedules.piecewise(1.0, [10, 5], [1.0, 0.5, 0.25]).build()


if __name__ == "__main__":
    script.main()
