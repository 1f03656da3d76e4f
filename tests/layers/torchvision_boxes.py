"""Writes tests/layers/torchvision.inc: what torchvision computes for the inputs that its comment tells.

Usage: torchvision_boxes.py > tests/layers/torchvision.inc  (needs PyTorch and torchvision)
"""
import torch
import torchvision
from torchvision import ops


def values(name, tensor):
    numbers = [f"{v:.9g}" for v in tensor.flatten().tolist()]
    lines = [", ".join(numbers[i:i + 6]) for i in range(0, len(numbers), 6)]
    print(f"static const double {name}[{len(numbers)}] = {{\n    " + ",\n    ".join(lines) + "};")


def pattern(*shape):
    """Element i is (i * 37 % 101 - 50) / 32, which floats hold exactly."""
    count = torch.Size(shape).numel()
    return ((torch.arange(count) * 37 % 101 - 50) / 32).reshape(shape).double()


def main():
    regions = torch.tensor([[0, 0, 0, 7, 5], [1, 2, 1, 5, 6], [0, 3, 2, 3, 2], [1, 4, 3, 9, 9]]).double()
    print(f"/* Computed with torchvision {torchvision.__version__.split('+')[0]} by tests/layers/torchvision_boxes.py,\n"
          " * in double. Maps have the elements (i * 37 % 101 - 50) / 32 in their order; regions are below. */")
    values("tv_regions", regions)
    whole = pattern(2, 3, 8, 9)
    values("tv_roi_pool", ops.roi_pool(whole, regions, (3, 2), 0.75))
    for ratio in (0, 2):
        values(f"tv_roi_align_{ratio}", ops.roi_align(whole, regions, (3, 2), 0.75, ratio, False))
    # R-FCN counts the last pixel; torchvision does not, and it cuts regions off one cell before the border.
    inner = torch.minimum(regions, torch.tensor([1, 9, 9, 7, 6]))
    values("tv_inner_regions", inner)
    ends = inner + torch.tensor([0, 0, 0, 1, 1])
    values("tv_ps_roi_pool", ops.ps_roi_pool(pattern(2, 8, 8, 9), ends, 2, 1.0))
    # Corners of boxes, and scores that differ.
    corner = (torch.arange(80) * 29 % 83).reshape(40, 2) / 64
    side = (torch.arange(80) * 31 % 43).reshape(40, 2) / 64 + 0.25
    boxes = torch.cat([corner, corner + side], 1)
    scores = (torch.arange(40) * 17 % 41) / 64
    values("tv_boxes", boxes)
    values("tv_scores", scores)
    for threshold in (0.25, 0.5):
        values(f"tv_nms_{int(100 * threshold)}", ops.nms(boxes, scores, threshold))


main()
