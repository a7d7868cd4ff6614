"""The scripts of Fleet's guides run under Paddle's names, and give the losses of the job.

Each script is its text in the guide, after a prologue where the guide shows only a part. CHANGES
lists the lines that differ: paths, counts and devices."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

import script
import tandem_case as case

COLLECTIVE_RESNET50 = """
import os
import fleetx as X
import paddle
import paddle.fluid as fluid
import paddle.distributed.fleet.base.role_maker as role_maker
import time
import paddle.distributed.fleet as fleet

paddle.enable_static()
configs = X.parse_train_configs()
fleet.init(is_collective=True)

model = X.applications.Resnet50()
downloader = X.utils.Downloader()
local_path = downloader.download_from_bos(
    fs_yaml='https://fleet.bj.bcebos.com/test/loader/small_imagenet.yaml',
    local_path='./data')
batch_size = 32
loader = model.get_train_dataloader(local_path, batch_size=batch_size)

dist_strategy = fleet.DistributedStrategy()

# distributed strategy
dist_strategy.sync_nccl_allreduce = True
dist_strategy.nccl_comm_num = 2
dist_strategy.fuse_all_reduce_ops = True

# build strategy
build_strategy = fluid.BuildStrategy()
build_strategy.enable_sequential_execution = True
build_strategy.fuse_elewise_add_act_ops = True
build_strategy.fuse_bn_act_ops = True
build_strategy.enable_auto_fusion = True
build_strategy.fuse_all_optimizer_ops = True
dist_strategy.build_strategy = build_strategy


# execute strategy
execution_strategy = fluid.ExecutionStrategy()
execution_strategy.num_threads = 3
execution_strategy.num_iteration_per_drop_scope = 100
execution_strategy.num_iteration_per_run = 1
dist_strategy.execution_strategy = execution_strategy

# amp
dist_strategy.amp = True
dist_strategy.amp_configs = {
    "init_loss_scaling": 128,
    "decr_every_n_nan_or_inf": 2,
    "incr_every_n_steps": 1000,
    "incr_ratio": 2.0,
    "use_dynamic_loss_scaling": True,
    "decr_ratio": 0.5,
    "custom_white_list": [],
    "custom_black_list": [],
}

dist_strategy.save_to_prototxt("dist_strategy.prototxt")

optimizer = fluid.optimizer.Momentum(learning_rate=0.01, momentum=0.9)
optimizer = fleet.distributed_optimizer(optimizer, dist_strategy)
optimizer.minimize(model.loss)

place = fluid.CUDAPlace(int(os.environ.get('FLAGS_selected_gpus', 0)))
exe = fluid.Executor(place)
exe.run(fluid.default_startup_program())

for i, data in enumerate(loader()):
    start_time = time.time()
    cost_val = exe.run(model.main_prog,
                        feed=data,
                        fetch_list=[model.loss.name])

    end_time = time.time()
    print(
        "worker_index: %d, step%d cost = %f, speed: %f"
        % (fleet.worker_index(), i, cost_val[0], batch_size / (end_time - start_time)))
"""

RESNET50_CHANGES = [
    ("""local_path = downloader.download_from_bos(
    fs_yaml='https://fleet.bj.bcebos.com/test/loader/small_imagenet.yaml',
    local_path='./data')
""", "local_path = './data'\n"),  # a path
    ("batch_size = 32\n", "batch_size = 2\n"),  # a count
    ("place = fluid.CUDAPlace(int(os.environ.get('FLAGS_selected_gpus', 0)))\n",
     "place = fluid.CPUPlace()\n"),  # a device
]

RESNET50_DATA = 'format: "synthetic" synthetic { samples: 12 test_samples: 4 }'

RESNET50_JOB = """
name: "resnet50"
model { zoo: "resnet50" arg { name: "classes" value: "1000" } }
data { %s }
optimizer { type: "momentum" learning_rate: 0.01 momentum: 0.9 }
strategy { %s }
batch_size: 2 eval_every_epochs: 0 log_every_steps: 1
"""

PARALLEL_EXECUTOR_PROLOGUE = """
import numpy
import paddle.fluid as fluid
use_cuda, memory_opt, dev_count = False, True, 1
img = fluid.layers.data(name="img", shape=[1, 28, 28])
label = fluid.layers.data(name="label", shape=[1], dtype="int64")
conv = fluid.layers.conv2d(input=img, num_filters=4, filter_size=5, act="relu")
pool = fluid.layers.pool2d(input=conv, pool_size=2, pool_stride=2)
logits = fluid.layers.fc(input=pool, size=10)
loss = fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(
    logits, label, ignore_index=255, numeric_stable_mode=True))
train_program = fluid.default_main_program()
test_program = train_program.clone(for_test=True)
fluid.optimizer.SGD(learning_rate=0.001).minimize(loss)
random = numpy.random.default_rng(0)
feed_dict = {"img": random.standard_normal((8, 1, 28, 28)).astype("float32"),
             "label": random.integers(0, 10, (8, 1))}
"""

PARALLEL_EXECUTOR = """
place = fluid.CUDAPlace(0) if use_cuda else fluid.CPUPlace()
exe = fluid.Executor(place)
exe.run(fluid.default_startup_program())
exec_strategy = fluid.ExecutionStrategy()
exec_strategy.num_threads = dev_count * 4 # the size of thread pool.
build_strategy = fluid.BuildStrategy()
build_strategy.memory_optimize = True if memory_opt else False
train_exe = fluid.ParallelExecutor(use_cuda=use_cuda,
                                   main_program=train_program,
                                   build_strategy=build_strategy,
                                   exec_strategy=exec_strategy,
                                   loss_name=loss.name)
test_exe = fluid.ParallelExecutor(use_cuda=True,
                                  main_program=test_program,
                                  build_strategy=build_strategy,
                                  exec_strategy=exec_strategy,
                                  share_vars_from=train_exe)
train_loss, = train_exe.run(fetch_list=[loss.name], feed=feed_dict)
test_loss, = test_exe.run(fetch_list=[loss.name], feed=feed_dict)
"""

PARALLEL_EXECUTOR_CHANGES = [
    ("test_exe = fluid.ParallelExecutor(use_cuda=True,",
     "test_exe = fluid.ParallelExecutor(use_cuda=False,"),  # a device
]

PY_READER_PROLOGUE = """
import numpy, time
import paddle
import paddle.fluid as fluid
train_py_reader = fluid.layers.py_reader(
    capacity=8, shapes=[[-1, 4], [-1, 1]], dtypes=["float32", "int64"], use_double_buffer=True)
x, label = fluid.layers.read_file(train_py_reader)
prediction = fluid.layers.fc(input=x, size=3, act="softmax")
cost = fluid.layers.mean(fluid.layers.cross_entropy(input=prediction, label=label))
fluid.optimizer.Adam(learning_rate=0.05).minimize(cost)
executor = fluid.Executor(fluid.CPUPlace())
executor.run(fluid.default_startup_program())
def samples():
    random = numpy.random.default_rng(0)
    for _ in range(320):
        row = random.standard_normal(4)
        yield row, [int(row[0] > 0) + int(row[1] > 0)]
train_py_reader.decorate_paddle_reader(paddle.batch(samples, batch_size=16))
"""

PY_READER = """
train_py_reader.start()
batch_id = 0
try:
    end = time.time()
    while True:
        print("queue size: ", train_py_reader.queue.size())
        loss, = executor.run(fetch_list=[...])
        # ...
        batch_time = time.time() - end
        end = time.time()
        batch_id += 1
except fluid.core.EOFException:
    train_py_reader.reset()
"""

PY_READER_CHANGES = [("executor.run(fetch_list=[...])", "executor.run(fetch_list=[cost])")]

PSERVER = """
import numpy
import paddle
import paddle.fluid as fluid
import paddle.distributed.fleet as fleet
import paddle.distributed.fleet.base.role_maker as role_maker

paddle.enable_static()
role = role_maker.PaddleCloudRoleMaker()
fleet.init(role)

ids = fluid.layers.data(name="ids", shape=[3], dtype="int64")
label = fluid.layers.data(name="label", shape=[1], dtype="int64")
emb = fluid.layers.embedding(input=ids, size=[40, 8], is_sparse=True)
fc = fluid.layers.fc(input=emb, size=16, act="relu")
predict = fluid.layers.fc(input=fc, size=2, act="softmax")
cost = fluid.layers.mean(fluid.layers.cross_entropy(input=predict, label=label))

strategy = fleet.DistributedStrategy()
strategy.a_sync = %s
optimizer = fluid.optimizer.SGD(learning_rate=0.5)
optimizer = fleet.distributed_optimizer(optimizer, strategy)
optimizer.minimize(cost)

if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
elif fleet.is_worker():
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    fleet.init_worker()
    random = numpy.random.default_rng(fleet.worker_index())
    for step in range(200):
        numbers = random.integers(0, 40, (32, 3))
        loss, = exe.run(feed={"ids": numbers, "label": numbers[:, :1] %% 2}, fetch_list=[cost])
    fleet.stop_worker()
    fleet.save_persistables(exe, "model")
    print("worker %%d of %%d: loss %%f" %% (fleet.worker_index(), fleet.worker_num(), loss[0]))
"""


def changed(text, changes):
    for before, after in changes:
        if text.count(before) != 1:
            raise AssertionError(f"the script has {text.count(before)} times {before!r}")
        text = text.replace(before, after)
    return text


def run(folder, name, text, *flags):
    """Runs a script by tandemrun in a directory. Returns its output."""
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)
    command = [os.path.join(script.BIN, "tandemrun"), "--paddle_names", *flags, name]
    interpreters = os.path.dirname(sys.executable)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False,
                          timeout=300, env={**os.environ, "PATH": f"{interpreters}:/usr/bin:/bin"})
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    return done.stdout


def costs(text):
    return re.findall(r"step\d+ cost = (\S+),", text)


class Guides(unittest.TestCase):
    def test_collective_resnet50(self):
        with tempfile.TemporaryDirectory(prefix="tandem-paddle-") as folder:
            os.mkdir(os.path.join(folder, "data"))
            with open(os.path.join(folder, "data/data.pbtxt"), "w", encoding="utf-8") as file:
                file.write(RESNET50_DATA)
            said = run(folder, "example_collective.py",
                       changed(COLLECTIVE_RESNET50, RESNET50_CHANGES), "--nproc=2")
            self.assertRegex(said, r"worker_index: 0, step0 cost = \d+\.\d+, speed: \d+\.\d+")
            with open(os.path.join(folder, "dist_strategy.prototxt"), encoding="utf-8") as file:
                strategy = file.read()
            with open(os.path.join(folder, "job.pbtxt"), "w", encoding="utf-8") as file:
                file.write(RESNET50_JOB % (RESNET50_DATA, strategy))
            job = subprocess.run(
                [os.path.join(script.BIN, "tandemrun"), "--mode=collective", "--nproc=2",
                 "job.pbtxt", "--", "--log_format=fleet"], cwd=folder, capture_output=True,
                text=True, check=False, timeout=300)
            self.assertEqual(job.returncode, 0, job.stdout + job.stderr)
            self.assertEqual(len(costs(said)), 3)
            # A job logs rank 0's loss, as the script prints it.
            self.assertEqual(costs(said), costs(job.stdout + job.stderr))

    def test_parallel_executor(self):
        with tempfile.TemporaryDirectory(prefix="tandem-paddle-") as folder:
            text = changed(PARALLEL_EXECUTOR, PARALLEL_EXECUTOR_CHANGES)
            said = run(folder, "sample.py", PARALLEL_EXECUTOR_PROLOGUE + text +
                       "print('losses', train_loss[0], test_loss[0])\n", "--mode=local")
            train, test = map(float, said.split("losses")[1].split())
            self.assertLess(test, train)

    def test_py_reader(self):
        with tempfile.TemporaryDirectory(prefix="tandem-paddle-") as folder:
            text = changed(PY_READER, PY_READER_CHANGES)
            said = run(folder, "loop.py", PY_READER_PROLOGUE + text * 3 +
                       "print('batches', batch_id, 'loss', loss[0])\n", "--mode=local")
            self.assertEqual(said.count("queue size: "), 3 * 21)  # 20 batches, then the end
            self.assertIn("batches 20 ", said)
            self.assertLess(float(said.split()[-1]), 0.9)

    def test_parameter_servers(self):
        for asynchronous in (False, True):
            with tempfile.TemporaryDirectory(prefix="tandem-paddle-") as folder:
                said = run(folder, "train.py", PSERVER % asynchronous,
                           "--server_num=2", "--worker_num=2")
                losses = re.findall(r"worker 0 of 2: loss (\S+)", said)
                self.assertEqual(len(losses), 1, said)
                self.assertLess(float(losses[0]), 0.6)
                self.assertEqual(os.listdir(os.path.join(folder, "model")),
                                 ["params.safetensors"])


class Layers(unittest.TestCase):
    def test_the_axis_of_elementwise_operations(self):
        text = """
import numpy
import paddle.fluid as fluid
x = fluid.layers.data("x", [3, 3], dtype="float32")
assert x.shape == (-1, 3, 3), x.shape
w = fluid.data("w", [3])
exe = fluid.Executor(fluid.CPUPlace())
ones, numbers = numpy.ones((1, 3, 3), "float32"), numpy.arange(3, dtype="float32")
outs = [fluid.layers.elementwise_add(x, w, axis=axis) for axis in (1, -1)]
exe.run(fluid.default_startup_program())
rows, columns = exe.run(feed={"x": ones, "w": numbers}, fetch_list=outs)
assert (rows == ones + numbers[:, None]).all() and (columns == ones + numbers).all()
"""
        with tempfile.TemporaryDirectory(prefix="tandem-paddle-") as folder:
            run(folder, "axis.py", text, "--mode=local")


class Refused(unittest.TestCase):
    def fails(self, body, expected):
        text = "import paddle.fluid as fluid\nx = fluid.layers.data('x', [3, 8, 8])\n" + body
        with tempfile.TemporaryDirectory(prefix="tandem-paddle-") as folder:
            with self.assertRaisesRegex(AssertionError, expected):
                run(folder, "wrong.py", text, "--mode=local")

    def test_arguments_that_are_not_implemented(self):
        self.fails("fluid.layers.conv2d(x, 4, 3, dilation=2)",
                   "conv2d: this value of dilation is not implemented")
        self.fails("fluid.layers.cross_entropy(x, x)", "only the result of softmax")
        self.fails("import fleetx\nfleetx.utils.Downloader().download_from_bos('a', 'b')",
                   "put the data into b")
        self.fails("fluid.layers.no_such_layer(x)", "no_such_layer")

    def test_paddle_is_absent_without_the_flag(self):
        done = subprocess.run([sys.executable, "-c", "import tandem, paddle"], check=False,
                              capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": case.PACKAGES})
        self.assertIn("No module named 'paddle'", done.stderr)


if __name__ == "__main__":
    script.main()
