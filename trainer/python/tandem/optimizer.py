"""Gradients and optimizers.

    optimizer = tandem.optimizer.Adam(0.002, regularization=tandem.optimizer.L2Decay(1e-4))
    optimizer.minimize(loss)

Arguments that are None have the defaults of the operator (docs/reference/operators.md). A number
is rounded to f32, as in job files, so a job with the same settings gives the same bits.

Arguments of all optimizers:
    learning_rate: a number or a schedule (tandem.schedules).
    regularization: L1Decay or L2Decay of all parameters.
    grad_clip: ClipByValue, ClipByNorm or ClipByGlobalNorm.
    decay_exclude: parts of names; parameters with one of them in their name have no decay.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from .errors import FailedPreconditionError, InvalidArgumentError
from .program import Recipe, StartupProgram, Variable, default_main_program
from .schedules import Schedule, constant

__all__ = [
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "ClipByGlobalNorm",
    "ClipByNorm",
    "ClipByValue",
    "DecayedAdagrad",
    "Ftrl",
    "L1Decay",
    "L2Decay",
    "Lamb",
    "LarsMomentum",
    "Momentum",
    "Optimizer",
    "ParamGrad",
    "RMSProp",
    "SGD",
    "append_backward",
]

Number = Optional[float]
Value = Union[float, bool, str]


@dataclass(frozen=True)
class L1Decay:
    """Adds `coeff` times the sign of the parameter to its gradient."""

    coeff: float


@dataclass(frozen=True)
class L2Decay:
    """Adds `coeff` times the parameter to its gradient."""

    coeff: float


@dataclass(frozen=True)
class ClipByValue:
    """Limits each element of a gradient to [low, high]."""

    low: float
    high: float


@dataclass(frozen=True)
class ClipByNorm:
    """Scales the gradient of a parameter down to this 2-norm."""

    norm: float


@dataclass(frozen=True)
class ClipByGlobalNorm:
    """Scales all gradients together down to this 2-norm."""

    norm: float


Regularization = Union[L1Decay, L2Decay, None]
Clip = Union[ClipByValue, ClipByNorm, ClipByGlobalNorm, None]


class ParamGrad(NamedTuple):
    """A parameter and its gradient. A sparse gradient has its row numbers in `rows`."""

    param: Variable
    grad: Variable
    rows: Optional[Variable]


def append_backward(loss: Variable, loss_scale: float = 1.0) -> List[ParamGrad]:
    """Appends the gradients of all parameters and returns them.

    Args:
        loss: a variable of one element. It becomes the loss of its program.
        loss_scale: the gradient of the loss.

    Raises:
        InvalidArgumentError: a gradient would have to flow through an operator without one.
        FailedPreconditionError: the loss belongs to another program than the current one.
    """
    program = default_main_program()
    program._own("append_backward", loss)
    program.core.loss = loss.name
    return [
        ParamGrad(
            Variable(program, param),
            Variable(program, grad),
            Variable(program, rows) if rows else None,
        )
        for param, grad, rows in program.core.append_backward(loss_scale)
    ]


def _f32(value: float) -> float:
    rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return rounded


class Optimizer:
    """An optimizer by the name that jobs use (`optimizer { type: ... }`).

    Args:
        kind: sgd, momentum, adam, ... (`tandem._core.optimizer_types()`).
        attrs: the attributes of its operator; None: the default.
    """

    def __init__(
        self,
        kind: str,
        learning_rate: Union[float, Schedule],
        attrs: Optional[Mapping[str, Optional[Value]]] = None,
        regularization: Regularization = None,
        grad_clip: Clip = None,
        decay_exclude: Sequence[str] = (),
    ) -> None:
        self.kind = kind
        if isinstance(learning_rate, Schedule):
            self.schedule = learning_rate
        else:
            self.schedule = constant(learning_rate)
        self._attrs: Dict[str, Value] = {}
        for name, value in (attrs or {}).items():
            if value is not None:
                self._attrs[name] = value if isinstance(value, (bool, str)) else _f32(value)
        self._add(regularization, grad_clip, decay_exclude)

    def _add(self, decay: Regularization, clip: Clip, exclude: Sequence[str]) -> None:
        if isinstance(decay, L1Decay):
            self._attrs["l1_decay"] = _f32(decay.coeff)
        elif isinstance(decay, L2Decay):
            self._attrs["l2_decay"] = _f32(decay.coeff)
        elif decay is not None:
            raise InvalidArgumentError(
                f"regularization: expected L1Decay or L2Decay, got {decay!r} [TD1107]"
            )
        if isinstance(clip, ClipByValue):
            self._attrs["clip_min"], self._attrs["clip_max"] = _f32(clip.low), _f32(clip.high)
        elif isinstance(clip, ClipByNorm):
            self._attrs["clip_norm"] = _f32(clip.norm)
        elif isinstance(clip, ClipByGlobalNorm):
            self._attrs["clip_global_norm"] = _f32(clip.norm)
        elif clip is not None:
            raise InvalidArgumentError(
                "grad_clip: expected ClipByValue, ClipByNorm or ClipByGlobalNorm, got "
                f"{clip!r} [TD1107]"
            )
        if exclude:
            self._attrs["decay_exclude"] = ",".join(exclude)

    def job_settings(self) -> List[Tuple[str, str]]:
        """The settings as fields of a job (`optimizer { ... }`), by name, as text."""
        settings = [("type", self.kind), ("learning_rate", repr(self.schedule.learning_rate))]
        for name, value in self._attrs.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            settings.append(("momentum" if name == "mu" else name, text))
        return [(f"optimizer.{name}", text) for name, text in settings]

    def apply_gradients(self, gradients: Sequence[ParamGrad]) -> None:
        """Appends the update of each parameter by its gradient.

        Raises:
            InvalidArgumentError: the optimizer lacks an attribute, or a value is wrong.
            FailedPreconditionError: the program has an optimizer already.
        """
        program = default_main_program()
        if program.schedule is not None:
            raise FailedPreconditionError(
                f'program "{program.name}" already has an optimizer [TD1203]'
            )
        schedule = self.schedule.build()
        rows = [
            (
                program._own(self.kind, pair.param),
                program._own(self.kind, pair.grad),
                "" if pair.rows is None else pair.rows.name,
            )
            for pair in gradients
        ]
        program.core.append_optimizer(self.kind, self._attrs, rows)
        program.schedule = schedule

    def minimize(
        self, loss: Variable, startup_program: Optional[StartupProgram] = None
    ) -> List[ParamGrad]:
        """Appends gradients and updates to the current program, and returns the gradients.

        Args:
            loss: a variable of one element.
            startup_program: for Paddle's scripts; the startup program of a program always
                initialises the states of its optimizer.
        """
        del startup_program
        program = default_main_program()
        forward = program.core.clone()
        gradients = append_backward(loss)
        self.apply_gradients(gradients)
        program._recipe = Recipe(
            forward, loss.name, self.job_settings(), program.core.version
        )
        return gradients


class SGD(Optimizer):
    """Param - learning_rate Grad."""

    def __init__(
        self,
        learning_rate: Union[float, Schedule],
        regularization: Regularization = None,
        grad_clip: Clip = None,
        decay_exclude: Sequence[str] = (),
    ) -> None:
        super().__init__("sgd", learning_rate, {}, regularization, grad_clip, decay_exclude)


class Momentum(Optimizer):
    """Momentum, with `use_nesterov` in Nesterov's variant."""

    def __init__(
        self,
        learning_rate: Union[float, Schedule],
        momentum: Number = None,
        use_nesterov: Optional[bool] = None,
        lazy_mode: Optional[bool] = None,
        regularization: Regularization = None,
        grad_clip: Clip = None,
        decay_exclude: Sequence[str] = (),
    ) -> None:
        attrs = {"mu": momentum, "use_nesterov": use_nesterov, "lazy_mode": lazy_mode}
        super().__init__(
            "momentum", learning_rate, attrs, regularization, grad_clip, decay_exclude
        )


class Adam(Optimizer):
    """Adam (Kingma and Ba, ICLR 2015)."""

    def __init__(
        self,
        learning_rate: Union[float, Schedule] = 0.001,
        beta1: Number = None,
        beta2: Number = None,
        epsilon: Number = None,
        lazy_mode: Optional[bool] = None,
        regularization: Regularization = None,
        grad_clip: Clip = None,
        decay_exclude: Sequence[str] = (),
    ) -> None:
        attrs = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon, "lazy_mode": lazy_mode}
        super().__init__("adam", learning_rate, attrs, regularization, grad_clip, decay_exclude)


class AdamW(Optimizer):
    """Adam with weight decay in the update (Loshchilov and Hutter, ICLR 2019)."""

    def __init__(
        self,
        learning_rate: Union[float, Schedule] = 0.001,
        beta1: Number = None,
        beta2: Number = None,
        epsilon: Number = None,
        weight_decay: Number = None,
        lazy_mode: Optional[bool] = None,
        grad_clip: Clip = None,
        decay_exclude: Sequence[str] = (),
    ) -> None:
        attrs = {
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
            "weight_decay": weight_decay,
            "lazy_mode": lazy_mode,
        }
        super().__init__("adamw", learning_rate, attrs, None, grad_clip, decay_exclude)


class Adagrad(Optimizer):
    """Adagrad. `initial_accumulator` is the first value of its sum of squares."""

    def __init__(
        self,
        learning_rate: Union[float, Schedule],
        epsilon: Number = None,
        initial_accumulator: Number = None,
        regularization: Regularization = None,
        grad_clip: Clip = None,
        decay_exclude: Sequence[str] = (),
    ) -> None:
        attrs = {"epsilon": epsilon, "initial_accumulator": initial_accumulator}
        super().__init__("adagrad", learning_rate, attrs, regularization, grad_clip, decay_exclude)


class DecayedAdagrad(Optimizer):
    """Adagrad with a decaying mean of the squares."""

    def __init__(
        self,
        learning_rate: Union[float, Schedule],
        decay: Number = None,
        epsilon: Number = None,
        regularization: Regularization = None,
        grad_clip: Clip = None,
        decay_exclude: Sequence[str] = (),
    ) -> None:
        attrs = {"decay": decay, "epsilon": epsilon}
        super().__init__(
            "decayed_adagrad", learning_rate, attrs, regularization, grad_clip, decay_exclude
        )


class Adamax(Optimizer):
    """Adam with the infinity norm."""

    def __init__(
        self,
        learning_rate: Union[float, Schedule] = 0.001,
        beta1: Number = None,
        beta2: Number = None,
        epsilon: Number = None,
        regularization: Regularization = None,
        grad_clip: Clip = None,
        decay_exclude: Sequence[str] = (),
    ) -> None:
        attrs = {"beta1": beta1, "beta2": beta2, "epsilon": epsilon}
        super().__init__("adamax", learning_rate, attrs, regularization, grad_clip, decay_exclude)


class RMSProp(Optimizer):
    """RMSProp; `centered` uses the variance instead of the mean square."""

    def __init__(
        self,
        learning_rate: Union[float, Schedule],
        decay: Number = None,
        epsilon: Number = None,
        momentum: Number = None,
        centered: Optional[bool] = None,
        regularization: Regularization = None,
        grad_clip: Clip = None,
        decay_exclude: Sequence[str] = (),
    ) -> None:
        attrs = {"decay": decay, "epsilon": epsilon, "mu": momentum, "centered": centered}
        super().__init__("rmsprop", learning_rate, attrs, regularization, grad_clip, decay_exclude)


class Ftrl(Optimizer):
    """FTRL-proximal (McMahan et al., KDD 2013) with penalties l1 and l2."""

    def __init__(
        self,
        learning_rate: Union[float, Schedule],
        l1: Number = None,
        l2: Number = None,
        grad_clip: Clip = None,
    ) -> None:
        super().__init__("ftrl", learning_rate, {"l1": l1, "l2": l2}, None, grad_clip)


class LarsMomentum(Optimizer):
    """LARS: the rate of a parameter depends on its norm (You et al., 2017)."""

    def __init__(
        self,
        learning_rate: Union[float, Schedule],
        momentum: Number = None,
        lars_coeff: Number = None,
        weight_decay: Number = None,
        epsilon: Number = None,
        grad_clip: Clip = None,
        decay_exclude: Sequence[str] = (),
    ) -> None:
        attrs = {
            "mu": momentum,
            "lars_coeff": lars_coeff,
            "weight_decay": weight_decay,
            "epsilon": epsilon,
        }
        super().__init__("lars_momentum", learning_rate, attrs, None, grad_clip, decay_exclude)


class Lamb(Optimizer):
    """LAMB: Adam whose rate depends on the norm of the parameter (You et al., ICLR 2020)."""

    def __init__(
        self,
        learning_rate: Union[float, Schedule],
        beta1: Number = None,
        beta2: Number = None,
        epsilon: Number = None,
        weight_decay: Number = None,
        grad_clip: Clip = None,
        decay_exclude: Sequence[str] = (),
    ) -> None:
        attrs = {
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
            "weight_decay": weight_decay,
        }
        super().__init__("lamb", learning_rate, attrs, None, grad_clip, decay_exclude)
