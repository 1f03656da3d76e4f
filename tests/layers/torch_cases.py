"""Functions of the scripts that write cases computed with PyTorch."""
import torch


def pattern(shape, number):
    """Element i of blob `number` is ((i + 11 number) * 37 % 101 - 50.5) / 32, which floats hold exactly."""
    count = torch.Size(shape).numel()
    return (((torch.arange(count) + 11 * number) * 37 % 101 - 50.5) / 32).reshape(shape).double()


def text(shape):
    return " ".join(str(n) for n in shape)


def emit(name, tensors):
    numbers = [f"{v:.9g}" for t in tensors for v in t.detach().flatten().tolist()]
    lines = [", ".join(numbers[i:i + 6]) for i in range(0, len(numbers), 6)]
    print(f"static const double {name}[{len(numbers)}] = {{\n    " + ",\n    ".join(lines) + "};")


def write_cases(cases, prefix):
    """The cases' numbers and their table, `prefix`_cases."""
    rows = []
    for at, (kind, body, bottoms, params, function) in enumerate(cases):
        given = [b for b in bottoms if torch.is_tensor(b)]
        blobs = []
        for number, b in enumerate(bottoms + params):
            values = b.clone() if torch.is_tensor(b) else pattern(b, number) * (7.5 if kind == "ReLU6" else 1)
            blobs.append(values.requires_grad_(not torch.is_tensor(b)))
        result = function(*blobs)
        tops = list(result) if isinstance(result, tuple) else [result]
        head = torch.ones(()).double() if "Loss" in kind else pattern(tops[0].shape, 5)
        if tops[0].requires_grad:
            tops[0].backward(head)
        emit(f"{prefix}_{at}", tops + [b.grad for b in blobs if b.requires_grad])
        emit(f"{prefix}_given_{at}", given or [torch.zeros(1)])
        names = getattr(getattr(function, "__code__", None), "co_names", ())
        origin = "torchvision" if "torchvision" in names else "PyTorch"
        shapes = "|".join(text(b.shape if torch.is_tensor(b) else b) for b in bottoms)
        rows.append(f'    {{"{kind}", "{origin}",\n     "{body}",\n     "{shapes}", {len(tops)}, '
                    f'{len(bottoms) - len(given)}, {prefix}_{at}, '
                    f"COUNT({prefix}_{at}), {prefix}_given_{at}, 0}},")
    print(f"static const peer_case {prefix}_cases[] = {{\n" + "\n".join(rows) + "\n};")
