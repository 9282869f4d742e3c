"""Builds the wheel and the sdist, and tries them as a stranger would.

    scripts/release.py [DIRECTORY]

It builds the committed files, not those of the checkout. There are two wheels: one for any machine,
and one for Linux on x86-64 that has what is written in C, compiled. All are built twice and must be
the same bytes, and the sdist must make the same wheels. A wheel is then installed into a new
environment of each Python that is found, by pip, and into one by uv: the README's example runs
there, and an example of the typed API is checked by `mypy --strict` and pyright. Its dependencies
are listed with their licences, each of which must be known here, and as an SBOM (CycloneDX).
"""

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
TOOLS = ("build>=1.2,<2", "cyclonedx-bom>=7,<8", "mypy>=1.13,<3", "pyright>=1.1.400,<2", "uv")
WHEELS = ("any", "manylinux_2_17_x86_64")
"""See `compile_c.py`. The library asks of the system for nothing newer than glibc 2.2.5."""
PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
ALLOWED = re.compile(
    r"apache|bsd|\bmit\b|isc|psf|python software|mpl|mozilla|unlicense|openldap|oldap|zlib|0bsd|cc0"
    r"|lgpl|lesser general",
    re.IGNORECASE,
)
"""Licences under which a dependency may be used by who embeds us; psycopg has the LGPL."""
LICENCES = """
import json
from importlib.metadata import distributions
def told(of):
    said = of.metadata.get("License-Expression") or of.metadata.get("License") or ""
    named = [c for c in of.metadata.get_all("Classifier") or () if c.startswith("License ::")]
    told = said.splitlines()[0] if said.strip() else "; ".join(c.split(" :: ")[-1] for c in named)
    return told or {"chroma-hnswlib": "Apache-2.0"}.get(of.metadata["Name"], "")
print(json.dumps(sorted([d.metadata["Name"], d.version, told(d)] for d in distributions())))
"""
TYPED = """
from memory_actors import Hit, MemorySystem


async def found(directory: str) -> list[Hit]:
    async with MemorySystem.open(directory) as memory:
        user = memory.user("ada")
        await user.add("Ada likes tea")
        return await user.retrieve("drinks", top_k=3)
"""


def run(*command: object, **how: object) -> str:
    """Run a command and return what it prints.

    :raises SystemExit: it failed; what it said is shown.
    """
    said = [str(word) for word in command]
    print("$", " ".join(said), flush=True)
    done = subprocess.run(said, capture_output=True, text=True, **how)  # type: ignore[call-overload]  # noqa: S603
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}\nfailed: {' '.join(said)}")
    return str(done.stdout)


def built(source: Path, out: Path, tools: Path, *kinds: str) -> dict[str, str]:
    """Build sdist and wheels, or such `kinds`, in a directory; return the digests by file name."""
    when = run("git", "log", "-1", "--format=%ct", cwd=ROOT).strip()
    for wheel in WHEELS:
        settings = {**os.environ, "SOURCE_DATE_EPOCH": when, "MEMORY_ACTORS_WHEEL": wheel}
        run(tools / "python", "-m", "build", *kinds, "--outdir", out, source, env=settings)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in out.iterdir()}


def committed(scratch: Path, name: str) -> Path:
    """Return a copy of what is committed, in a directory of its own."""
    target = scratch / name
    target.mkdir()
    archive = scratch / f"{name}.tar"
    run("git", "archive", "--output", archive, "HEAD", cwd=ROOT)
    shutil.unpack_archive(archive, target, filter="data")
    return target


def build(scratch: Path, tools: Path, out: Path) -> Path:
    """Build sdist and wheels twice, and the wheels once more from the sdist.

    Return the wheel that this machine would be given.
    """
    first = built(committed(scratch, "first"), scratch / "dist", tools)
    second = built(committed(scratch, "second"), scratch / "again", tools)
    if first != second:
        sys.exit(f"the same commit made other bytes: {first}, {second}")
    (sdist,) = (scratch / "dist").glob("*.tar.gz")
    shutil.unpack_archive(sdist, scratch / "sdist", filter="data")
    (unpacked,) = (scratch / "sdist").iterdir()
    again = built(unpacked, scratch / "from-sdist", tools, "--wheel")
    if not again.items() <= first.items():
        sys.exit(f"the sdist makes another wheel: {again}, {first}")
    out.mkdir(parents=True, exist_ok=True)
    for name, digest in first.items():
        shutil.copy(scratch / "dist" / name, out / name)
        print(digest, name)
    compiled, here = out.glob(f"*-{WHEELS[1]}.whl"), (sys.platform, platform.machine())
    return next(compiled if here == ("linux", "x86_64") else out.glob(f"*-{WHEELS[0]}.whl"))


def environments(scratch: Path, tools: Path, wheel: Path) -> Iterator[tuple[str, Path]]:
    """Yield new environments with the wheel in them: of each Python, and one made by uv."""
    found = [python for python in PYTHONS if _runs(python)]
    missing = [python for python in PYTHONS if python not in found]
    print("Pythons here:", *found, "- not here:", *missing)
    for python in found:
        place = scratch / python
        run(python, "-m", "venv", place)
        run(place / "bin/python", "-m", "pip", "install", "--quiet", wheel)
        yield python, place / "bin"
    place = scratch / "uv"
    run(tools / "uv", "venv", "--quiet", "--python", sys.executable, place)
    pip = tools / "uv", "pip", "install", "--quiet", "--python", place / "bin/python"
    run(*pip, *_indexes(), wheel)
    yield "uv", place / "bin"


def _runs(python: str) -> bool:
    """Say whether there is such a Python: a name may stand for one that is not chosen."""
    found = shutil.which(python)
    return found is not None and _said(found, "--version") != ""


def _said(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    return "" if done.returncode else done.stdout.strip()


def _indexes() -> Iterator[str]:
    """Yield what tells uv of the registries that pip asks, for uv does not read pip's settings."""
    for setting, option in (("index-url", "--default-index"), ("extra-index-url", "--index")):
        told = os.environ.get(f"PIP_{setting.replace('-', '_').upper()}")
        asked = told or _said(sys.executable, "-m", "pip", "config", "get", f"global.{setting}")
        for url in asked.split():
            yield f"{option}={url}"


def tried(name: str, place: Path, scratch: Path, tools: Path) -> None:
    """Run the README's example in an environment, and check the types that the package offers."""
    readme = (ROOT / "README.md").read_text("utf-8")
    program = readme.split("```python\n")[1].split("```")[0]
    reader = scratch / f"reader-{name}"
    reader.mkdir()
    shown = run(place / "python", "-c", program, cwd=reader)
    if "skiing" not in shown:
        sys.exit(f"the README's example printed {shown!r} in {name}")
    example = reader / "typed_example.py"
    example.write_text(TYPED)
    run(tools / "mypy", "--strict", "--python-executable", place / "python", example, cwd=reader)
    run(tools / "pyright", "--pythonpath", place / "python", example, cwd=reader)


def licences(place: Path) -> list[list[str]]:
    """Return name, version and licence of all that is installed; refuse what is not known here."""
    found: list[list[str]] = json.loads(run(place / "python", "-c", LICENCES))
    found = [one for one in found if one[0] not in ("memory-actors", "pip", "setuptools")]
    for name, version, licence in found:
        print(f"{name:<24} {version:<12} {licence[:60]}")
    unknown = [one for one in found if not ALLOWED.search(one[2])]
    if unknown:
        sys.exit(f"licences to be looked at, and then named in {Path(__file__).name}: {unknown}")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Do all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=ROOT / "dist")
    out = parser.parse_args(arguments).directory.resolve()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        run(sys.executable, "-m", "venv", scratch / "tools")
        tools = scratch / "tools/bin"
        run(tools / "python", "-m", "pip", "install", "--quiet", *TOOLS)
        wheel = build(scratch, tools, out)
        for python, place in environments(scratch, tools, wheel):
            tried(python, place, scratch, tools)
        listed = licences(place)
        (out / "licences.json").write_text(json.dumps(listed, indent=1) + "\n")
        run(tools / "cyclonedx-py", "environment", "--output-reproducible",
            "--output-file", out / "sbom.json", place / "python")  # fmt: skip
    print(f"all of it holds; see {out}")


if __name__ == "__main__":
    main()
