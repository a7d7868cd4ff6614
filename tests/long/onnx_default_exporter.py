"""Files of PyTorch's default ONNX exporter, imported and trained by Tandem's trainer for 20 steps beside
the network, on the same samples by the same optimizer. Prints a table: how far the losses of the
steps go apart, and the weights after the last one. Needs torch >= 2.9, onnx, onnxscript and numpy:

  VENV/bin/python tests/long/onnx_default_exporter.py --build=build [NAME...]

--write=FOLDER writes the files that tests/onnx/exporter_test.py reads.
"""
import argparse
import collections
import json
import logging
import os
import re
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "onnx"), os.path.join(HERE, "..", "torch")]
import numpy as np
import onnx
import torch
from torch.nn import functional as F
import imported
import onnx_models as M
import safetensors_io

BATCH = 16  # for training; files are exported with M.BATCH


def norms(net):
    return any(isinstance(module, torch.nn.modules.batchnorm._BatchNorm) for module in net.modules())


def network(name):
    """A network as one that has trained: no two of its numbers are equal."""
    torch.manual_seed(1)
    make, specs = M.MODELS[name]
    net, random = make().eval(), torch.Generator().manual_seed(2)
    for parameter in net.parameters():
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=random)
    return net, specs


def export(net, specs, path, static):
    random = torch.Generator().manual_seed(3)
    args = tuple(torch.randint(0, spec[1], (M.BATCH, *spec[2:]), generator=random) if spec[0] == "i"
                 else torch.randn((M.BATCH, *spec[1:]), generator=random) for spec in specs)
    dynamic = None if static else tuple({0: torch.export.Dim.DYNAMIC} for _ in specs)
    quiet, null = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    try:  # optimize=False keeps normalisations, so that they are trained with their statistics
        torch.onnx.export(net, args, path, dynamic_shapes=dynamic, verbose=False,
                          optimize=not norms(net), external_data=False)
    finally:
        os.dup2(quiet, 1)
    graph = onnx.load(path).graph
    return ([value.name for value in graph.input],
            collections.Counter(node.op_type for node in graph.node))


def bare(model):
    """Without the notes of the exporter that the import does not read: lines of Python and their files."""
    for value in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        del value.metadata_props[:]
    del model.graph.value_info[:], model.metadata_props[:], model.functions[:]
    for owner, known in [(model.graph, "graph_signature")] + [(n, "rule_name") for n in model.graph.node]:
        kept = [note for note in owner.metadata_props if note.key.endswith(known)]
        del owner.metadata_props[:]
        owner.metadata_props.extend(kept)
        owner.doc_string = ""
    return model


def tensors(batch, dims, names):
    """A batch of samples as PyTorch's inputs, and its labels in one row."""
    columns = [torch.tensor([sample[name] for sample in batch]).reshape(len(batch), *dims[name])
               for name in names]
    return columns, torch.tensor([sample["label"] for sample in batch]).reshape(-1)


def loss_of(name, net, inputs, label):
    out = net(*inputs)
    rows = out.reshape(-1, out.shape[-1])
    if name.endswith("softmax"):  # the import leaves the final node to the loss
        return F.nll_loss(rows if "log" in name else rows.log(), label)
    return F.cross_entropy(rows, label)


def train(name, net, names, samples, dims):
    net.train(norms(net))
    optimizer = torch.optim.SGD(net.parameters(), imported.OPTIMIZER["learning_rate"],
                                imported.OPTIMIZER["momentum"])
    losses = []
    for step in range(imported.STEPS):
        begin = step * BATCH % len(samples)
        loss = loss_of(name, net, *tensors(samples[begin:begin + BATCH], dims, names))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def places(before):
    """Where the numbers of a network are, by their bits: the import turns, splits and joins tensors.
    A number that is there twice has no place."""
    found = {}
    for name, array in before.items():
        for at, bits in enumerate(array.reshape(-1).view(np.uint32).tolist()):
            found[bits] = None if bits in found else (name, at)
    return found


def weights_apart(first, last, before, after):
    """The largest difference of a tensor's numbers, relative to its largest; how many numbers were
    compared, of how many that the network has; and the largest change that the training made."""
    found, worst, moved, count = places(before), 0.0, 0.0, 0
    for name, array in first.items():
        pairs = [(i, found.get(bits)) for i, bits in
                 enumerate(array.reshape(-1).view(np.uint32).tolist())]
        pairs = [(i, place) for i, place in pairs if place is not None]
        if not pairs:
            continue
        ours = last[name].reshape(-1)[[i for i, _ in pairs]]
        theirs = np.array([after[tensor].reshape(-1)[at] for _, (tensor, at) in pairs])
        began = array.reshape(-1)[[i for i, _ in pairs]]
        worst = max(worst, float(np.abs(ours - theirs).max() / np.abs(theirs).max()))
        moved = max(moved, float(np.abs(began - theirs).max() / np.abs(theirs).max()))
        count += len(pairs)
    return worst, moved, count


def parameters(net):
    return {name: value.detach().numpy().copy() for name, value in net.named_parameters()}


def error_of(said):
    line = said.split("error: ")[-1].replace("\n", " ")
    return line.split("model.onnx: ")[-1].strip()


def exporter_error(error):
    missing = re.search(r"No ONNX function found for <OpOverload\(op='([^']*)'", str(error))
    return "no function for " + missing.group(1) if missing else type(error).__name__


def compare(name, folder, binaries, write):
    net, specs = network(name)
    path = os.path.join(folder, "model.onnx")
    inputs, nodes = export(net, specs, path, name.endswith("static"))
    ops = ", ".join(sorted(nodes))
    try:
        imported.import_model(binaries, path, folder, inputs)
    except imported.Refused as error:
        return (ops, "no: " + error_of(str(error)), "", "", ""), False
    shapes = [(spec[1:] if spec[0] == "f" else spec[2:]) for spec in specs]
    with torch.no_grad():
        trial = net(*(torch.zeros((2, *shape), dtype=torch.int64 if spec[0] == "i" else None)
                      for spec, shape in zip(specs, shapes)))
    fields = {field: (list(shape), spec[1] if spec[0] == "i" else 0)
              for field, shape, spec in zip(inputs, shapes, specs)}
    fields["label"] = (list(trial.shape[1:-1]) or [1], trial.shape[-1])
    samples = imported.draw(fields, 4 * BATCH)
    dims = {field: shape for field, (shape, _) in fields.items()}
    before = parameters(net)
    theirs = train(name, net, inputs, samples, dims)
    ours = imported.train(binaries, folder, samples, dims, BATCH)
    first = safetensors_io.read(os.path.join(folder, "model.safetensors"))
    last = safetensors_io.read(imported.checkpoint(folder))
    weights, moved, count = weights_apart(first, last, before, parameters(net))
    losses = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))
    total = sum(array.size for array in before.values())
    good = losses <= imported.LOSS_MAX and weights <= imported.WEIGHT_MAX and count > 0
    if write:
        onnx.save(bare(onnx.load(path)), os.path.join(write, name + ".onnx"))
        with open(os.path.join(write, name + ".json"), "w", encoding="utf-8") as file:
            json.dump({"inputs": inputs, "fields": fields, "batch": BATCH, "losses": theirs}, file)
            file.write("\n")
    return (ops, "yes", f"{losses:.1e}", f"{weights:.1e} of {count} of {total}", f"{moved:.1e}"), good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("--write", default="")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    binaries = os.path.abspath(os.path.join(given.build, "bin"))
    print("| file | nodes | imported | largest difference of 20 losses | of final weights, and how many "
          "were compared | largest change by the training |")
    print("|---|---|---|---|---|---|", flush=True)
    bad = []
    with tempfile.TemporaryDirectory() as top:
        for name in given.names or M.MODELS:
            folder = os.path.join(top, name)
            os.mkdir(folder)
            try:
                row, good = compare(name, folder, binaries, given.write)
            except torch.onnx.OnnxExporterError as error:
                row, good = ("", "the exporter fails: " + exporter_error(error), "", "", ""), False
            if not good:
                bad.append(name)
            print("| " + " | ".join((name, *row)) + " |", flush=True)
    print(f"\n{len(bad)} are refused, or differ by more than {imported.LOSS_MAX} of a loss or "
          f"{imported.WEIGHT_MAX} of a weight: {', '.join(bad)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
