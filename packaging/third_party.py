"""Writes what Rust libraries the programs contain: name, version, licence, and the texts of the licences that come with each.

usage: third_party.py TARGET > THIRD-PARTY-LICENCES
"""

import json
import pathlib
import subprocess
import sys


def ask(*words):
    return subprocess.run(["cargo", *words, "--locked"], check=True, stdout=subprocess.PIPE, text=True).stdout


target = sys.argv[1]
packages = json.loads(ask("metadata", "--format-version", "1", "--filter-platform", target))["packages"]
linked = {
    tuple(line.split()[:2])
    for line in ask("tree", "--edges", "normal", "--target", target, "--prefix", "none", "--format", "{p}").splitlines()
}
texts = {}
listed = []
for package in sorted(packages, key=lambda package: (package["name"], package["version"])):
    name = f"{package['name']} {package['version']}"
    if (package["name"], "v" + package["version"]) not in linked or package["source"] is None:
        continue
    listed.append(f"{name}: {package['license'] or 'see below'}")
    here = pathlib.Path(package["manifest_path"]).parent
    for path in sorted(here.iterdir()):
        if path.is_file() and path.name.upper().startswith(("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")):
            texts.setdefault(path.read_text(errors="replace").strip(), []).append(f"{name} ({path.name})")
if len(listed) < 20:
    sys.exit(f"only {len(listed)} libraries were found")
print("Libraries in the programs of pgforensics\n\n" + "\n".join(listed))
for text, names in texts.items():
    print("\n" + "=" * 78 + "\n" + ", ".join(names) + "\n\n" + text)
