from typing import Any

DESCRIPTOR: Any

def __getattr__(name: str) -> Any: ...
