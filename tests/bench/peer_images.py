"""The peers of reader_jpeg: the same samples (random rectangle, 224x224, mirror, normalised, planes)
from the same files with one thread, by OpenCV and by torchvision. Prints one JSON object:
{setting: images/s, "mean": of the values of OpenCV's samples, "version": ...}.

usage: peer_images.py DIR SECONDS     DIR: what tandem-figures reader_jpeg --export_dir wrote
"""

import json
import math
import os
import random
import sys
import time

import cv2
import numpy as np

MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)
SIZE = 224


def rectangle(width, height, draw):
    """As torchvision's RandomResizedCrop draws it."""
    for _ in range(10):
        area = width * height * draw.uniform(0.08, 1)
        ratio = math.exp(draw.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return draw.randint(0, width - w), draw.randint(0, height - h), w, h
    side = min(width, height)
    return (width - side) // 2, (height - side) // 2, side, side


def opencv_sample(path, draw):
    """[224, 224, 3] bytes, BGR."""
    image = cv2.imread(path, cv2.IMREAD_COLOR)
    x, y, w, h = rectangle(image.shape[1], image.shape[0], draw)
    sample = cv2.resize(image[y:y + h, x:x + w], (SIZE, SIZE), interpolation=cv2.INTER_LINEAR)
    return cv2.flip(sample, 1) if draw.random() < 0.5 else sample


def opencv(path, draw, out):
    # One pass: BGR to RGB, scale, bytes to float planes.
    planes = cv2.dnn.blobFromImage(opencv_sample(path, draw), 1 / 255, swapRB=True)[0]
    np.subtract(planes, MEAN[:, None, None], out=out)
    np.divide(out, STD[:, None, None], out=out)


def opencv_split(path, draw, out):
    for c, plane in enumerate(reversed(cv2.split(opencv_sample(path, draw)))):
        # plane / (255 std) - mean / std.
        np.multiply(plane, np.float32(1 / (255 * STD[c])), out=out[c], dtype=np.float32)
        out[c] -= MEAN[c] / STD[c]


def torchvision_ways():
    """{name: a function of path, draw, out}; {} where torchvision is missing."""
    try:
        import torch
        from PIL import Image
        from torchvision import io, transforms
        from torchvision.transforms import v2
    except ImportError as error:
        print(f"peer_images: without torchvision: {error}", file=sys.stderr)
        return {}
    torch.set_num_threads(1)
    classic = transforms.Compose([
        transforms.RandomResizedCrop(SIZE), transforms.RandomHorizontalFlip(),
        transforms.ToTensor(), transforms.Normalize(MEAN.tolist(), STD.tolist())])
    tensors = v2.Compose([
        v2.RandomResizedCrop(SIZE, antialias=True), v2.RandomHorizontalFlip(),
        v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN.tolist(), STD.tolist())])

    def pil(path, _, out):
        with Image.open(path) as image:
            out[:] = classic(image.convert("RGB")).numpy()

    def tensor(path, _, out):
        out[:] = tensors(io.decode_image(io.read_file(path), io.ImageReadMode.RGB)).numpy()

    return {"torchvision, PIL": pil, "torchvision v2, tensors": tensor}


def main():
    folder, seconds = sys.argv[1], float(sys.argv[2])
    cv2.setNumThreads(1)
    paths = sorted(os.path.join(folder, name) for name in os.listdir(folder)
                   if name.endswith(".jpg"))
    ways = {"OpenCV, blobFromImage": opencv, "OpenCV, split": opencv_split, **torchvision_ways()}
    batch = np.empty((len(paths), 3, SIZE, SIZE), np.float32)
    out = {"version": cv2.__version__}
    for name, way in ways.items():
        draw, images = random.Random(1), 0
        way(paths[0], draw, batch[0])
        start = time.perf_counter()
        while time.perf_counter() - start < seconds / len(ways):
            for i, path in enumerate(paths):
                way(path, draw, batch[i])
            images += len(paths)
        out[name] = round(images / (time.perf_counter() - start), 1)
        if way is opencv:
            out["mean"] = float(batch.mean())
    print(json.dumps(out))


main()
