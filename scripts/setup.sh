# Sourced by scripts/demo and scripts/test: a virtual environment with the package in it.
#
# Needs Python 3.11 or newer with venv, pip, and a package registry. Completed steps are not repeated.

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
venv="$root/.venv"
python="$venv/bin/python"

fail() {
  printf 'Error: %s\n' "$@" >&2
  exit 1
}

is_new_enough() {
  command -v "$1" >/dev/null 2>&1 &&
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
  local candidate
  for candidate in "${PYTHON:-python3}" python3 python3.13 python3.12 python3.11; do
    if is_new_enough "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  fail "Python 3.11 or newer is needed, and none was found." \
    "Install one, or say where it is: PYTHON=/path/to/python3 $0"
}

make_venv() {
  local chosen
  chosen="$(find_python)"
  echo "Making a virtual environment in .venv with $("$chosen" --version)"
  if ! "$chosen" -m venv "$venv" >/dev/null; then
    rm -rf "$venv"
    fail "$chosen cannot make virtual environments." \
      "On Debian and Ubuntu: apt-get install python3-venv. Then run $0 again."
  fi
}

# The inputs of an installation: its place, the Python, pyproject.toml, and the sources that are compiled.
fingerprint() {
  "$python" - "$root" <<'PYTHON'
import hashlib, pathlib, sys
root = pathlib.Path(sys.argv[1])
said = f"{root}\n{sys.version}\n".encode()
compiled = [file for package in ("eventlog", "memory_actors") for file in sorted(root.glob(f"{package}/**/*.[ch]"))]
for file in [root / "pyproject.toml", root / "scripts/compile_c.py", *compiled]:
    said += file.read_bytes()
print(hashlib.sha256(said).hexdigest())
PYTHON
}

install_package() {
  local extra="$1" now
  now="$(fingerprint)"
  if [[ "$(cat "$venv/.installed$extra" 2>/dev/null)" == "$now" ]]; then
    return
  fi
  echo "Installing the package and what it needs"
  if ! "$python" -m pip install --quiet --disable-pip-version-check --editable "$root$extra"; then
    fail "pip could not install the package: see above."
  fi
  echo "$now" >"$venv/.installed$extra"
  echo "$now" >"$venv/.installed"
}

install_model() {
  "$venv/bin/memory-actors" model path >/dev/null 2>&1 || "$venv/bin/memory-actors" model install
}

# setup [EXTRA]: everything that is needed to run; EXTRA is for example [dev].
setup() {
  [[ -e "$venv" ]] || make_venv
  is_new_enough "$python" ||
    fail "$venv has no working Python 3.11 or newer. Remove it and run $0 again."
  "$python" -m pip --version >/dev/null 2>&1 ||
    fail "$venv has no pip. Remove it and run $0 again."
  install_package "${1:-}"
  install_model
}
