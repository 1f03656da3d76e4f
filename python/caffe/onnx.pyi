from os import PathLike
from typing import NamedTuple

from . import Net

_Path = str | bytes | PathLike[str]

class Comparison(NamedTuple):
    difference: float
    output: str

def export(net: Net | _Path, path: _Path, weights: _Path | None = ..., opset: int = ...,
           batch: int | str | None = ...) -> None: ...
def load(path: _Path, phase: int = ...) -> Net: ...
def convert(path: _Path, net_path: _Path, weights_path: _Path) -> None: ...
def compare(net: Net, path: _Path) -> Comparison: ...
