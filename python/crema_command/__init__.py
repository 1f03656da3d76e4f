"""The command ``crema`` of a wheel. It is separate from the package ``caffe``, whose import takes longer."""
import importlib.util
import os
import sys


def main():
    """Replaces this process with the command, which runs layers of type Python in this interpreter."""
    folder = os.path.dirname(importlib.util.find_spec("caffe").origin)
    os.environ.setdefault("CREMA_PYTHON", sys.executable)
    os.execv(os.path.join(folder, "bin", "crema"), sys.argv)
