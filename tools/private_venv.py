"""Gives a script the one package it needs, Pillow, from `tools/.venv` where the running Python has none."""
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

PILLOW = "11.3.0"       # the last that still runs on Python 3.9
VENV = Path(__file__).resolve().parent / ".venv"


def require_pillow(any_version=False):
    """Returns if Pillow is there (the pinned one, unless `any_version`), else runs the script again in a venv that has it."""
    found = pillow_version()
    if found == PILLOW or (found and any_version):
        return
    python = VENV / "bin" / "python"
    if not has_pinned(python):
        make_venv(python)
    os.execv(python, [str(python), *sys.argv])


def pillow_version():
    """The version of Pillow that the running Python would import, or None."""
    try:
        return importlib.metadata.version("pillow")
    except importlib.metadata.PackageNotFoundError:
        return None


def has_pinned(python):
    ask = f"import sys, PIL; sys.exit(PIL.__version__ != {PILLOW!r})"
    return python.exists() and subprocess.run([python, "-c", ask], stderr=subprocess.DEVNULL).returncode == 0


def make_venv(python):
    print(f"installing Pillow {PILLOW} into {VENV}", file=sys.stderr)
    for command in ([sys.executable, "-m", "venv", str(VENV)],
                    [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"pillow=={PILLOW}"]):
        if subprocess.run(command).returncode != 0:
            print(f"error: {' '.join(command)} failed\n"
                  f"hint: this needs Pillow {PILLOW}; on Debian, `apt-get install python3-venv` gives the venv module",
                  file=sys.stderr)
            sys.exit(2)
