"""JPEG files for the GPU list, made without a library: noise in the lowest frequencies of every
block, so that a decoder has as much to do as with a photograph of good quality."""

import random
import struct

# Zigzag positions up to this one have coefficients.
COEFFICIENTS = 12
# A separate code of 4 bits for each category of a DC difference. Another code of 3 bits for the end
# of a block and for each category of an AC coefficient.
DC_SYMBOLS, AC_SYMBOLS = range(12), range(6)


def segment(marker, data):
    return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data


def huffman(kind, bits, symbols):
    counts = [len(symbols) if length == bits else 0 for length in range(1, 17)]
    return segment(0xC4, bytes([kind << 4, *counts, *symbols]))


def value_bits(value):
    """Category, and the bits that say which of its values it is."""
    size = abs(value).bit_length()
    low = value if value >= 0 else value + (1 << size) - 1
    return size, f"{low:0{size}b}" if size else ""


def jpeg(width, height, seed):
    """A colour image of `width` * `height` pixels as a baseline JPEG file."""
    draw = random.Random(seed)
    textures = []
    for _ in range(64):
        text = ""
        for _ in range(COEFFICIENTS):
            size, bits = value_bits(draw.choice((-1, 1)) * draw.randint(1, 6))
            text += f"{size:03b}" + bits
        textures.append(text + "000")
    before, stream = [0, 0, 0], []
    for _ in range((width + 7) // 8 * ((height + 7) // 8)):
        for c in range(3):
            level = max(-40, min(40, before[c] + draw.randint(-8, 8)))
            size, bits = value_bits(level - before[c])
            before[c] = level
            stream.append(f"{size:04b}" + bits + draw.choice(textures))
    text = "".join(stream)
    text += "1" * (-len(text) % 8)
    data = int(text, 2).to_bytes(len(text) // 8, "big").replace(b"\xff", b"\xff\x00")
    frame = struct.pack(">BHHB", 8, height, width, 3) + b"".join(
        bytes([c, 0x11, 0]) for c in (1, 2, 3))
    scan = bytes([3]) + b"".join(bytes([c, 0]) for c in (1, 2, 3)) + bytes([0, 63, 0])
    return (b"\xff\xd8" + segment(0xDB, bytes([0] + [16] * 64)) + segment(0xC0, frame) +
            huffman(0, 4, DC_SYMBOLS) + huffman(1, 3, AC_SYMBOLS) + segment(0xDA, scan) + data +
            b"\xff\xd9")


def write_images(folder, files, width, height, samples, classes):
    """`files` images, and a list that names each of them several times, with labels."""
    for i in range(files):
        with open(f"{folder}/{i}.jpg", "wb") as file:
            file.write(jpeg(width, height, i))
    with open(f"{folder}/images.txt", "w", encoding="utf-8") as file:
        for i in range(samples):
            file.write(f"{i % files}.jpg {i * 7 % classes}\n")
