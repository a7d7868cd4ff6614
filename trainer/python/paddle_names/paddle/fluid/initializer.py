"""Initial values of parameters."""

from tandem import initializer as _tandem
from tandem.errors import UnimplementedError
from tandem.initializer import Initializer

__all__ = ["Constant", "ConstantInitializer", "MSRA", "MSRAInitializer", "Normal",
           "NormalInitializer", "Uniform", "UniformInitializer", "Xavier", "XavierInitializer"]


def _only(name: str, given: bool) -> None:
    if given:
        raise UnimplementedError(f"initializer: {name} is not implemented [TD1109]")


def Constant(value: float = 0.0, force_cpu: bool = False) -> Initializer:
    """All elements are `value`."""
    del force_cpu
    return _tandem.Constant(value)


def Uniform(low: float = -1.0, high: float = 1.0, seed: int = 0) -> Initializer:
    """Uniform in [low, high)."""
    _only("seed", seed != 0)
    return _tandem.Uniform(low, high)


def Normal(loc: float = 0.0, scale: float = 1.0, seed: int = 0) -> Initializer:
    """Normal with mean `loc` and standard deviation `scale`."""
    _only("seed", seed != 0)
    return _tandem.Normal(loc, scale)


def Xavier(uniform: bool = True, fan_in: object = None, fan_out: object = None,
           seed: int = 0) -> Initializer:
    """Glorot and Bengio, AISTATS 2010."""
    _only("Xavier(uniform=False)", not uniform)
    _only("fan_in, fan_out or seed", fan_in is not None or fan_out is not None or seed != 0)
    return _tandem.XavierUniform()


def MSRA(uniform: bool = True, fan_in: object = None, seed: int = 0) -> Initializer:
    """He et al., ICCV 2015; only uniform=False."""
    _only("MSRA(uniform=True)", uniform)
    _only("fan_in or seed", fan_in is not None or seed != 0)
    return _tandem.MSRANormal()


ConstantInitializer = Constant
UniformInitializer = Uniform
NormalInitializer = Normal
XavierInitializer = Xavier
MSRAInitializer = MSRA
