"""Readers of training data, one thread each side."""

import os
import statistics
import tempfile

import machine
import peer_setup
from runner import HERE, Failed, Runner, compare, run_json

TEXT_FORMATS = ("criteo", "csv", "libsvm")


def check_text(ours, peer):
    for name in TEXT_FORMATS:
        if ours[name + "_sums"] != peer[name + "_sums"]:
            raise Failed(f"{name}: the sides read other records: {ours}, {peer}")


def check_images(ours, peer):
    # Both sides draw rectangles: the means over all samples are nearly equal.
    if abs(ours["mean"] - peer["mean"]) > 0.05:
        raise Failed(f"the samples differ: mean {ours['mean']:.3f} and {peer['mean']:.3f}")


class ReaderFigures(Runner):
    def alternate(self, name, python, peer_script, check):
        """(our runs, the peer's, others' share) on files that our side writes first."""
        ours, peer, work = [], [], machine.OtherWork()
        with tempfile.TemporaryDirectory(prefix="tandem-bench-") as data:
            self.ours(name, 1, 0.1, "--export_dir=" + data)
            for _ in self.rounds(name):
                ours.append(self.ours(name, 1, self.args.seconds, "--export_dir=" + data))
                peer.append(run_json([python, os.path.join(HERE, peer_script), data,
                                      str(self.args.seconds)], what=peer_script))
                check(ours[-1], peer[-1])
        return ours, peer, round(work.share(), 3)

    def reader_text(self):
        ours, peer, others = self.alternate("reader_text", peer_setup.arrow_python(self.build_dir),
                                            "peer_arrow.py", check_text)
        limit = statistics.median(r["lines_mb_per_s"] for r in ours)
        table = {name: compare([r[name + "_mb_per_s"] for r in ours],
                               [max(r[name].values()) for r in peer], limit,
                               lower_is_better=False) for name in TEXT_FORMATS}
        out = dict(min(table.values(), key=lambda row: row["ratio"]))
        out.update(
            peer_name=f"pyarrow {peer[0]['version']}, the best of its settings in each round",
            limit_name="lines of the same file found and counted",
            formats={name: {"ours": round(row["ours"]), "peer": round(row["peer"]),
                            "ratio": row["ratio"]} for name, row in table.items()},
            peer_settings={name: peer[-1][name] for name in TEXT_FORMATS}, others_share=others)
        return out

    def reader_jpeg(self):
        ours, peer, others = self.alternate("reader_jpeg", peer_setup.images_python(self.build_dir),
                                            "peer_images.py", check_images)
        ways = [name for name in peer[0] if name not in ("version", "mean")]
        out = compare([r["images_per_s"] for r in ours], [max(r[w] for w in ways) for r in peer],
                      statistics.median(r["whole_decodes_per_s"] for r in ours),
                      lower_is_better=False)
        out.update(
            peer_name=f"the best of OpenCV {peer[0]['version']} and torchvision in each round",
            limit_name="decoding the whole images and nothing else",
            peer_settings={w: statistics.median(r[w] for r in peer) for w in ways},
            others_share=others)
        return out
