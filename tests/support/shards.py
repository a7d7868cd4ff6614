"""Runs the cases of a GoogleTest program in several processes at once (tandem_test(... SHARDS COUNT)).
This is for programs whose cases mostly wait. Usage: shards.py COUNT PROGRAM"""

import os
import subprocess
import sys
import tempfile


def environment(program, shard, count):
    found = dict(os.environ, GTEST_TOTAL_SHARDS=str(count), GTEST_SHARD_INDEX=str(shard))
    if found.get("GTEST_OUTPUT", "").endswith("/"):
        # GoogleTest chooses a name that is free, but not the same name in two processes.
        found["GTEST_OUTPUT"] += f"{os.path.basename(program)}.shard{shard}.xml"
    return found


def main():
    count, program = int(sys.argv[1]), sys.argv[2]
    shards = []
    for shard in range(count):
        output = tempfile.TemporaryFile()
        shards.append((subprocess.Popen([program], env=environment(program, shard, count),
                                        stdout=output, stderr=subprocess.STDOUT), output))
    codes = []
    for process, output in shards:
        codes.append(process.wait())
        output.seek(0)
        sys.stdout.buffer.write(output.read())
    failed = [f"{shard} with {code}" for shard, code in enumerate(codes) if code != 0]
    if failed:
        print(f"shards.py: {program}: of {count} shards failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
