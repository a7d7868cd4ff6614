"""A case of ops.py as the text of a program, and what is wrong with its results."""

import numpy as np
import torch

RELATIVE = 1e-5  # relative to the largest element
RELATIVE_HALF = 2e-2


def to_bf16(array):
    """The nearest values that bf16 has, ties to even."""
    bits = np.ascontiguousarray(array).view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) & np.uint32(0xffff0000)).view(np.float32)


def names(slot, value):
    return [f"{slot}{i}" for i in range(len(value))] if isinstance(value, list) else [slot]


def attr_text(name, value):
    if isinstance(value, bool):
        kind = f"b: {str(value).lower()}"
    elif isinstance(value, int):
        kind = f"i: {value}"
    elif isinstance(value, float):
        kind = f"f: {value!r}"
    elif isinstance(value, str):
        kind = f's: "{value}"'
    else:
        kind = "ints { " + " ".join(f"v: {v}" for v in value) + " }"
    return f'  attr {{ name: "{name}" {kind} }}\n'


def slot_text(which, slot, variables):
    listed = " ".join(f'var: "{v}"' for v in variables)
    return f'  {which} {{ slot: "{slot}" {listed} }}\n'


def var_text(name, kind, array):
    dtype = {"float32": "F32", "int64": "I64"}[array.dtype.name]
    dims = " ".join(f"dims: {d}" for d in array.shape)
    return f'var {{ name: "{name}" kind: {kind} dtype: {dtype} {dims} }}\n'


class Written:
    """Case `number` (ops.py) of an operator as a program, with PyTorch's answers. `draw` gives an
    array of a shape: the weights of the mean. `half`: to be run in bf16, on values that it has."""

    def __init__(self, op, case, number, draw, half=False):
        self.name = f"{op}.{number:03d}"
        self.op, self.case, self.half = op, case, half
        self.arrays, self.kinds, self.tensors = {}, {}, {}
        for slot, value in case.slots:
            for name, array in zip(names(slot, value), value if isinstance(value, list) else [value]):
                self.arrays[name] = self.given(np.asarray(array))
                state = slot in case.state.values()
                self.kinds[name] = "PARAM" if slot in case.params else "STATE" if state else "DATA"
        self.answer(draw)

    def given(self, array):
        return to_bf16(array) if self.half and array.dtype == np.float32 else array

    def answer(self, draw):
        by_slot = {}
        for slot, value in self.case.slots:
            made = []
            for name in names(slot, value):
                array = self.arrays[name]
                tensor = torch.from_numpy(array.copy())
                if array.dtype == np.float32:
                    tensor = tensor.double()
                    tensor.requires_grad_(self.kinds[name] == "PARAM")
                self.tensors[name] = tensor
                made.append(tensor)
            by_slot[slot] = made if isinstance(value, list) else made[0]
        self.results = {}
        for slot, value in self.case.want(by_slot).items():
            values = value if isinstance(value, list) else [value]
            shared = self.case.state.get(slot)
            out = [shared] if shared else [f"out.{slot}{i}" for i in range(len(values))]
            for name, tensor in zip(out, values):
                self.results[name] = tensor
        if not self.case.params:
            return
        self.first = next(name for name in self.results if name.startswith("out."))
        self.arrays["weight"] = self.given(draw(tuple(self.results[self.first].shape)))
        self.kinds["weight"] = "DATA"
        loss = (self.results[self.first] * torch.from_numpy(self.arrays["weight"]).double()).mean()
        loss.backward()

    def text(self, out_slots):
        body = f'op {{\n  type: "{self.op}"\n'
        for slot, value in self.case.slots:
            body += slot_text("input", slot, names(slot, value))
        for slot in out_slots:
            count = self.case.many.get(slot, 1)
            shared = self.case.state.get(slot)
            body += slot_text("output", slot,
                              [shared] if shared else [f"out.{slot}{i}" for i in range(count)])
        body += "".join(attr_text(k, v) for k, v in self.case.attrs.items()) + "}\n"
        text = "".join(var_text(n, self.kinds[n], a) for n, a in self.arrays.items()) + body
        if self.case.params:
            text += ('op { type: "elementwise_mul"'
                     f' input {{ slot: "X" var: "{self.first}" }} input {{ slot: "Y" var: "weight" }}'
                     ' output { slot: "Out" var: "weighted" } }\n'
                     'op { type: "mean" input { slot: "X" var: "weighted" }'
                     ' output { slot: "Out" var: "loss" } }\nloss: "loss"\n')
        return f'name: "{self.name}"\n' + text

    def differences(self, got):
        """What is wrong, for people."""
        want = {name: tensor.detach() for name, tensor in self.results.items()}
        for name, tensor in self.tensors.items():
            if self.kinds[name] == "PARAM":
                grad = tensor.grad if tensor.grad is not None else torch.zeros_like(tensor)
                want[name + "@GRAD"] = grad
        for name, tensor in want.items():
            if name not in got:
                yield f"{name} is missing"
                continue
            ours, theirs = got[name].astype(np.float64), tensor.numpy()
            if ours.shape != theirs.shape:
                yield f"{name} has the shape {ours.shape}, expected {theirs.shape}"
            elif theirs.size:
                worst = np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1e-30)
                if not worst <= (RELATIVE_HALF if self.half else RELATIVE):
                    yield f"{name} differs by {worst:.2g} of its largest element"
