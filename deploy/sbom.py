#!/usr/bin/env python3
"""Writes the software bill of materials of Tandem's programs as CycloneDX 1.5 JSON.

  deploy/sbom.py --version=0.1.0 --output=FILE PROGRAM...

A component is a Debian package that holds a shared library which one of the programs loads (by
`ldd`). The document lists its version, source package and licences. The same programs on the same
machine give the same bytes: the serial number is a hash of the content, and the date is
SOURCE_DATE_EPOCH, or absent. Needs dpkg and ldd.
"""

import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import uuid

DOCUMENTS = pathlib.Path("/usr/share/doc")
NAMESPACE = uuid.UUID("2f9a9c0e-6a0f-5c57-9d1c-5d1c2b1f7a10")  # namespace of Tandem's documents


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def libraries(program):
    """The real paths of all shared libraries that `program` loads."""
    found = set()
    for line in output("ldd", program).splitlines():
        if "not found" in line:
            sys.exit(f"sbom: error: {program}: {line.strip()}")
        path = re.search(r"(/\S+)", line.split("=>")[-1])
        if path:
            found.add(os.path.realpath(path.group(1)))
    return found


def packages_of(paths):
    """The Debian packages that own the files. A merged /usr has two names for one file."""
    names = sorted({name for path in paths for name in (path, path.removeprefix("/usr"))})
    found = subprocess.run(["dpkg-query", "--search", *names], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, text=True, check=False).stdout
    owners = {}
    for line in found.splitlines():
        package, _, name = line.partition(": ")
        owners[name] = package.split(",")[0]
    packages = set()
    for path in sorted(paths):
        package = owners.get(path) or owners.get(path.removeprefix("/usr"))
        if package is None:
            sys.exit(f"sbom: error: no Debian package owns {path}, which a program loads")
        packages.add(package)
    return packages


def licences(package):
    """The names after "License:" in the package's copyright file."""
    path = DOCUMENTS / package.split(":")[0] / "copyright"
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return sorted(set(re.findall(r"^License:[ \t]+(\S[^\n]*?)[ \t]*$", text, re.MULTILINE)))


def component(package):
    fields = "${Package}\t${Version}\t${Architecture}\t${source:Package}\t${source:Version}"
    name, version, architecture, source, source_version = output(
        "dpkg-query", "--show", f"--showformat={fields}", package).split("\t")
    reference = f"pkg:deb/debian/{name}@{version}?arch={architecture}"
    return {
        "type": "library",
        "bom-ref": reference,
        "name": name,
        "version": version,
        "licenses": [{"license": {"name": one}} for one in licences(package)],
        "purl": reference,
        "properties": [{"name": "debian:source", "value": f"{source} {source_version}"}],
    }


def document(version, programs):
    packages = packages_of(set().union(*(libraries(program) for program in programs)))
    components = sorted((component(p) for p in packages), key=lambda c: c["name"])
    root = f"pkg:generic/tandem@{version}"
    metadata = {"component": {"type": "application", "bom-ref": root, "name": "tandem",
                              "version": version,
                              "licenses": [{"license": {"id": "Apache-2.0"}}]}}
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch:
        when = datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc)
        metadata["timestamp"] = when.strftime("%Y-%m-%dT%H:%M:%SZ")
    body = {"metadata": metadata, "components": components,
            "dependencies": [{"ref": root, "dependsOn": [c["bom-ref"] for c in components]}]}
    serial = uuid.uuid5(NAMESPACE, json.dumps(body, sort_keys=True))
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
            "serialNumber": f"urn:uuid:{serial}", **body}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--version", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("program", nargs="+")
    args = parser.parse_args()
    text = json.dumps(document(args.version, args.program), indent=2) + "\n"
    pathlib.Path(args.output).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
