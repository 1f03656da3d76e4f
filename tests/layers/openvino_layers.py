"""Writes tests/layers/openvino.inc: what OpenVINO computes for layers of forks.

Usage: openvino_layers.py > tests/layers/openvino.inc  (needs OpenVINO and NumPy)
"""
import numpy as np
import openvino
from openvino import opset8 as ops

REGIONS = np.array([[0, 0, 0, 7, 5], [1, 2, 1, 5, 6], [0, 3, 2, 3, 2], [1, 4, 3, 12, 9]], np.float32)


def pattern(shape, number):
    """As in torch_cases.py."""
    count = np.prod(shape)
    return (((np.arange(count) + 11 * number) * 37 % 101 - 50.5) / 32).reshape(shape).astype(np.float32)


def pooled(x, regions, offsets, scale, group, samples, deviation, part):
    inputs = [ops.parameter(a.shape, np.float32) for a in (x, regions, offsets) if a is not None]
    node = ops.deformable_psroi_pooling(
        *inputs[:2], x.shape[1] // group**2, scale, group, "bilinear_deformable", samples, samples, deviation, part,
        inputs[2] if offsets is not None else None)
    model = openvino.compile_model(openvino.Model([node], inputs), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return model([a for a in (x, regions, offsets) if a is not None])[0]


def case(channels, group, samples, deviation, part, classes):
    x = pattern((2, channels, 6, 7), 0)
    offsets = None if classes == 0 else pattern((4, 2 * classes, part, part), 2)
    top = pooled(x, REGIONS, offsets, 0.75, group, samples, deviation, part)
    fields = (f"spatial_scale: 0.75 output_dim: {channels // group**2} group_size: {group} "
              f"sample_per_part: {samples} part_size: {part} trans_std: {deviation}")
    shapes = f"2 {channels} 6 7|4 5" + (f"|4 {2 * classes} {part} {part}" if classes else "")
    return (f"deformable_psroi_pooling_param {{ {fields}{'' if classes else ' no_trans: true'} }}", shapes,
            [a for a in (x, REGIONS, offsets) if a is not None], top)


def emit(name, arrays):
    numbers = [f"{v:.9g}" for a in arrays for v in np.asarray(a, float).ravel()]
    lines = [", ".join(numbers[i:i + 6]) for i in range(0, len(numbers), 6)]
    print(f"static const double {name}[{len(numbers)}] = {{\n    " + ",\n    ".join(lines) + "};")


def main():
    print(f"/* Computed with OpenVINO {openvino.__version__.split('-')[0]} by tests/layers/openvino_layers.py, in float,\n"
          " * from the values that torch.inc describes. */")
    cases = [case(8, 2, 2, 0.1, 2, 2), case(9, 3, 4, 0.25, 2, 1), case(4, 2, 3, 0, 2, 0)]
    rows = []
    for number, (body, shapes, given, top) in enumerate(cases):
        emit(f"openvino_{number}", [top])
        emit(f"openvino_given_{number}", given)
        rows.append(f'    {{"DeformablePSROIPooling", "OpenVINO",\n     "{body}",\n     "{shapes}", 1, 0, '
                    f"openvino_{number}, COUNT(openvino_{number}), openvino_given_{number}, 2e-6}},")
    print("static const peer_case openvino_cases[] = {\n" + "\n".join(rows) + "\n};")


if __name__ == "__main__":
    main()
