"""Files of PyTorch's default ONNX exporter, imported: the program that `tandem import` writes, interpreted
with PyTorch's operators, gives the network's numbers at another batch size than that of the export, and
is trained for 20 steps of SGD beside the network. Prints a table. Tandem's kernels are not run here:
tests/torch compares them. Needs torch >= 2.9, onnx, onnxscript and protobuf:

  VENV/bin/python tests/long/onnx_default_exporter.py --build=build [NAME...]
"""
import argparse
import collections
import logging
import os
import subprocess
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "..", "..")
sys.path[:0] = [HERE, os.path.join(SOURCE, "tests", "torch")]
import onnx
import torch
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from torch.nn import functional as F
import onnx_models as M
import safetensors_io


def program_message(folder):
    path = os.path.join(folder, "program.desc")
    subprocess.check_call(["protoc", "-I" + SOURCE, "--include_imports", "--descriptor_set_out=" + path,
                           "proto/program.proto"], cwd=SOURCE)
    pool = descriptor_pool.DescriptorPool()
    with open(path, "rb") as file:
        for proto in descriptor_pb2.FileDescriptorSet.FromString(file.read()).file:
            pool.Add(proto)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tandem.pb.ProgramDef"))


def attributes(op):
    d={}
    for a in op.attr:
        k=a.WhichOneof("value"); v=getattr(a,k) if k else None
        if k in("ints","floats"): v=list(v.v)
        d[a.name]=v
    return d
def bc(x,y,axis):
    if y.dim()==0 or x.shape==y.shape: return y
    return y.reshape(list(y.shape)+[1]*(x.dim()-axis-y.dim())) if axis>=0 else y
def run(d, vals, skip):
    for op in d.op:
        i={s.slot:[vals.get(v) for v in s.var] for s in op.input}; o={s.slot:list(s.var) for s in op.output}; a=attributes(op); t=op.type
        g=lambda k,j=0:i[k][j] if k in i and len(i[k])>j else None
        X=g("X")
        if t in skip: break
        if t=="fc": r=g("Input")@g("W"); b=g("Bias"); r=r if b is None else r+b
        elif t=="matmul":
            y=g("Y"); x=X.transpose(-1,-2) if a.get("trans_x") else X; y=y.transpose(-1,-2) if a.get("trans_y") else y; r=x@y*a.get("alpha",1.0)
        elif t.startswith("elementwise_"):
            y=bc(X,g("Y"),a.get("axis",-1)); k=t[12:]
            r={"add":torch.add,"sub":torch.sub,"mul":torch.mul,"div":torch.div,"max":torch.maximum}[k](X,y)
        elif t=="scale": r=X*a.get("scale",1.0)+a.get("bias",0.0)
        elif t in("sigmoid","tanh","relu"): r=getattr(torch,t)(X)
        elif t=="gelu": r=F.gelu(X,approximate="tanh" if a.get("approximate") else "none")
        elif t=="clip": r=X.clamp(a["min"],a["max"])
        elif t=="cast": r=X.to({"f32":torch.float32,"i64":torch.int64,"i32":torch.int32}[a["out_dtype"]])
        elif t=="softmax": r=X.softmax(-1)
        elif t=="reshape":
            dims=[X.shape[k] if v==0 else v for k,v in enumerate(a["shape"])]; r=X.reshape(dims)
        elif t=="transpose": r=X.permute(a["axis"])
        elif t=="concat": r=torch.cat(i["X"],a["axis"])
        elif t=="split":
            n=len(o["Out"]); ax=a["axis"]; parts=torch.split(X,a["sections"] if a.get("sections") else X.shape[ax]//n,ax)
            for name,p in zip(o["Out"],parts): vals[name]=p
            continue
        elif t=="slice":
            r=X
            for ax,s,e in zip(a["axes"],a["starts"],a["ends"]):
                r=r[(slice(None),)*ax+(slice(s,e),)]
        elif t=="lookup_table": r=g("W")[g("Ids")]
        elif t in("reduce_mean","reduce_sum","reduce_max"):
            dm=a["dim"]; kd=bool(a.get("keep_dim"));r={"reduce_mean":torch.mean,"reduce_sum":torch.sum,"reduce_max":torch.amax}[t](X,dim=dm,keepdim=kd)
        elif t=="layer_norm":
            r=F.layer_norm(X,X.shape[a["begin_norm_axis"]:],g("Scale"),g("Bias"),a["epsilon"])
        elif t=="conv2d": r=F.conv2d(g("Input"),g("Filter"),g("Bias"),a["strides"],a["paddings"],a["dilations"],a["groups"])
        elif t=="batch_norm": r=F.batch_norm(X,g("Mean"),g("Variance"),g("Scale"),g("Bias"),False,0,a["epsilon"])
        elif t=="pool2d":
            if a.get("global_pooling"): r=X.mean((2,3),keepdim=True) if a["pooling_type"]=="avg" else X.amax((2,3),keepdim=True)
            elif a["pooling_type"]=="max": r=F.max_pool2d(X,a["ksize"],a["strides"],a["paddings"])
            else: r=F.avg_pool2d(X,a["ksize"],a["strides"],a["paddings"],count_include_pad=not a.get("exclusive",True))
        else: raise Exception(t)
        vals[next(iter(o.values()))[0]]=r
        last=next(iter(o.values()))[0]
    return vals[last]

def draw(spec, batch, random):
    if spec[0] == "i":
        return torch.randint(0, spec[1], (batch, *spec[2:]), generator=random)
    return torch.randn((batch, *spec[1:]), generator=random)


def train(forward, parameters, batches):
    optimizer = torch.optim.SGD(parameters, 0.05)
    losses = []
    for args, label in batches:
        logits = forward(args)
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def compare(name, folder, program, tandem):
    """The operators; whether it is imported, or why not; differences of results and losses."""
    torch.manual_seed(1)
    make, specs = M.MODELS[name]
    net, random = make().eval(), torch.Generator().manual_seed(2)
    for parameter in net.parameters():  # as a network that has trained: no two are equal
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=random)
    args = tuple(draw(spec, M.BATCH, random) for spec in specs)
    dynamic = None if name.endswith("static") else tuple({0: torch.export.Dim.DYNAMIC} for _ in specs)
    path = os.path.join(folder, "model.onnx")
    quiet, null = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    try:
        torch.onnx.export(net, args, path, dynamic_shapes=dynamic, verbose=False)
    finally:
        os.dup2(quiet, 1)
    nodes = collections.Counter(node.op_type for node in onnx.load(path, load_external_data=False).graph.node)
    ops = ", ".join(sorted(nodes))
    done = subprocess.run([tandem, "import", path, folder, "--loss=none"], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        return ops, "no: " + done.stderr.split("model.onnx: ")[-1].split("\n")[0], "", ""
    with open(os.path.join(folder, "model.pbtxt"), encoding="utf-8") as file:
        definition = text_format.Parse(file.read(), program())
    values = {key: torch.from_numpy(value) for key, value in
              safetensors_io.read(os.path.join(folder, "model.safetensors")).items()}
    kinds = {var.name: var.kind for var in definition.var}
    data = [var.name for var in definition.var if var.kind == 1]
    trained = [values[key].requires_grad_() for key in values if kinds[key] == 2]

    def forward(given):
        return run(definition, {**values, **dict(zip(data, given))}, ())

    inputs = tuple(draw(spec, 5, random) for spec in specs)
    with torch.no_grad():
        want, got = net(*inputs), forward(inputs)
    result = float((want - got).abs().max() / want.abs().max())
    rows = want[..., 0].numel() // 5
    batches = [(tuple(draw(spec, 16, random) for spec in specs),
                torch.randint(0, want.shape[-1], (16 * rows,), generator=random)) for _ in range(20)]
    theirs = train(lambda given: net(*given), net.parameters(), batches)
    ours = train(forward, trained, batches)
    worst = max(abs(a - b) / b for a, b in zip(ours, theirs))
    return ops, "yes", f"{result:.1e}", f"{worst:.1e}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    tandem = os.path.abspath(os.path.join(given.build, "bin", "tandem"))
    print("| file | nodes | imported | largest difference of results | of 20 losses |")
    print("|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as top:
        program = program_message(top)
        for name in given.names or M.MODELS:
            folder = os.path.join(top, name)
            os.mkdir(folder)
            try:
                row = compare(name, folder, program, tandem)
            except torch.onnx.OnnxExporterError:
                row = ("", "the exporter fails", "", "")
            except Exception as error:  # pylint: disable=broad-except
                row = ("", f"cannot be compared: {type(error).__name__}: {error}"[:120], "", "")
            print("| " + " | ".join((name, *row)) + " |", flush=True)


if __name__ == "__main__":
    main()
