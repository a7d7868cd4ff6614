"""A PyTorch model trained by two trainers through two pservers is the model that PyTorch's own
optimizer trains on the whole batch."""

import gzip
import os
import sys
import threading

import script

FASHION_MNIST = "/usr/share/datasets/fashion-mnist"
STEPS, BATCH, RATE, MU = 150, 128, 0.05, 0.9
RELATIVE = 1e-3  # largest difference of a parameter, relative to the largest one

script.need_modules("grpc", "numpy", "torch", package="python3-grpcio, python3-torch")
script.need_file(FASHION_MNIST, "dataset-fashion-mnist")
# pylint: disable=wrong-import-position
import numpy
import torch

from pserver_process import Servers


def read_idx(name):
    path = os.path.join(FASHION_MNIST, name)
    if not os.path.exists(path):
        path += ".gz"
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        data = file.read()
    dims = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(data[3])]
    return numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * len(dims)).reshape(dims)


def samples(prefix, count):
    images = read_idx(prefix + "-images-idx3-ubyte")[:count].reshape(count, -1)
    labels = read_idx(prefix + "-labels-idx1-ubyte")[:count]
    return (torch.tensor(images.astype(numpy.float32) / 255),
            torch.tensor(labels.astype(numpy.int64)))


def network():
    torch.manual_seed(5)
    return torch.nn.Sequential(torch.nn.Linear(784, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))


def arrays(model):
    """The parameters' own memory: what a pull receives is in the model."""
    return {name: p.detach().numpy() for name, p in model.named_parameters()}


def backward(model, images, labels):
    model.zero_grad()
    torch.nn.functional.cross_entropy(model(images), labels).backward()


def train_on_pservers(tandem_pserver, servers, rank, ranks, model, images, labels, done):
    params = arrays(model)
    with tandem_pserver.Client(servers.addresses, trainer=rank, trainers=ranks) as client:
        client.configure({name: p.shape for name, p in params.items()}, "momentum", {"mu": MU})
        step = client.init_or_fetch(params)
        while step < STEPS:
            begin = (step * BATCH) % len(labels) + rank * BATCH // ranks
            part = slice(begin, begin + BATCH // ranks)
            backward(model, images[part], labels[part])
            grads = {name: p.grad.numpy() / numpy.float32(ranks)
                     for name, p in model.named_parameters()}
            step = client.push_pull(step, RATE, grads, params)
        client.complete()
    done[rank] = True


def train_in_torch(images, labels):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), RATE, MU)
    for step in range(STEPS):
        begin = (step * BATCH) % len(labels)
        backward(model, images[begin:begin + BATCH], labels[begin:begin + BATCH])
        optimizer.step()
    return model


def main():
    sys.path.insert(0, os.path.join(script.BUILD, "python"))
    import tandem_pserver  # pylint: disable=import-outside-toplevel

    images, labels = samples("train", 128 * 50)
    models = [network(), network()]  # here, because threads share torch's random numbers
    done = [False, False]
    with Servers(script.BUILD, 2, trainers=2) as servers:
        threads = [threading.Thread(target=train_on_pservers, args=(
            tandem_pserver, servers, rank, 2, models[rank], images, labels, done)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if not all(done):
        return "a trainer failed"
    torch_model = train_in_torch(images, labels)

    with torch.no_grad():
        test_images, test_labels = samples("t10k", 10000)
        accuracy = [(m(test_images).argmax(1) == test_labels).float().mean().item()
                    for m in (models[0], torch_model)]
    print(f"accuracy {accuracy[0]:.4f} through pservers, {accuracy[1]:.4f} in PyTorch alone")
    one, other, alone = (arrays(m) for m in (*models, torch_model))
    for name, want in alone.items():
        if not numpy.array_equal(one[name], other[name]):
            return f"the two trainers have different values of {name}"
        distance = abs(one[name] - want).max() / abs(want).max()
        print(f"  {name}: largest difference {distance:.1e}")
        if distance > RELATIVE:
            return f"{name} is {distance:.1e} from PyTorch's"
    return 0 if accuracy[0] > 0.75 else "it did not learn"


if __name__ == "__main__":
    sys.exit(main())
