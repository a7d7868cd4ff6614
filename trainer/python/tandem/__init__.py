"""Tandem: networks in Python, on the programs and the executor of Tandem's C++ library.

    import numpy, tandem
    x = tandem.data("x", [None, 4])
    label = tandem.data("label", [None, 1], "i64")
    logits = tandem.layers.fc(tandem.layers.fc(x, 16, act="relu"), 3)
    loss = tandem.layers.softmax_loss(logits, label)
    tandem.optimizer.Adam(0.01).minimize(loss)
    exe = tandem.Executor()
    exe.run(tandem.default_startup_program())
    for step in range(100):
        value, = exe.run(feed={"x": xs, "label": labels}, fetch_list=[loss])

Modules: `layers`, `ops` (every operator), `optimizer`, `schedules`, `initializer`, `models`, `onnx`,
`reader`, `fleet` (several ranks), `errors`.
Every failure is a `tandem.Error` with a code and a hint.
"""

from __future__ import annotations

from . import errors, fleet, initializer, layers, models, onnx, operators, ops, optimizer, reader
from . import schedules
from ._core import Sampler, Tensor, __version__
from .attributes import ParamAttr
from .compiled import CompiledProgram, ParallelExecutor
from .errors import Error
from .executor import Executor
from .jobs import fit, launch
from .optimizer import append_backward
from .program import (
    Program,
    StartupProgram,
    Variable,
    data,
    default_main_program,
    default_startup_program,
    device_guard,
    load_program,
    op_device,
    program_guard,
)
from .scope import (
    CPUPlace,
    CUDAPlace,
    Scope,
    global_scope,
    load_params,
    params_sha256,
    save_params,
    scope_guard,
)
from .strategy import BuildStrategy, ExecutionStrategy

__all__ = [
    "BuildStrategy",
    "CPUPlace",
    "CUDAPlace",
    "CompiledProgram",
    "Error",
    "ExecutionStrategy",
    "Executor",
    "ParallelExecutor",
    "ParamAttr",
    "Program",
    "Sampler",
    "Scope",
    "StartupProgram",
    "Tensor",
    "Variable",
    "__version__",
    "append_backward",
    "data",
    "default_main_program",
    "default_startup_program",
    "device_guard",
    "errors",
    "fit",
    "fleet",
    "global_scope",
    "initializer",
    "launch",
    "layers",
    "load_params",
    "load_program",
    "models",
    "onnx",
    "op_device",
    "ops",
    "optimizer",
    "params_sha256",
    "program_guard",
    "reader",
    "save_params",
    "schedules",
    "scope_guard",
]
