"""Paddle's names of programs, executors, layers and optimizers, over Tandem."""

from tandem import (
    BuildStrategy,
    CompiledProgram,
    CPUPlace,
    CUDAPlace,
    ExecutionStrategy,
    Executor,
    ParallelExecutor,
    ParamAttr,
    Program,
    Scope,
    Variable,
    data,
    default_main_program,
    default_startup_program,
    device_guard,
    global_scope,
    program_guard,
    scope_guard,
)

from . import clip, compiler, core, initializer, io, layers, optimizer, regularizer
from .io import DataLoader, PyReader

__all__ = [
    "BuildStrategy",
    "CPUPlace",
    "CUDAPlace",
    "CompiledProgram",
    "DataLoader",
    "ExecutionStrategy",
    "Executor",
    "ParallelExecutor",
    "ParamAttr",
    "Program",
    "PyReader",
    "Scope",
    "Variable",
    "clip",
    "compiler",
    "core",
    "data",
    "default_main_program",
    "default_startup_program",
    "device_guard",
    "global_scope",
    "initializer",
    "io",
    "is_compiled_with_cuda",
    "layers",
    "optimizer",
    "program_guard",
    "regularizer",
    "scope_guard",
]


def is_compiled_with_cuda() -> bool:
    """Whether a CUDA device is usable."""
    return core.is_compiled_with_cuda()
