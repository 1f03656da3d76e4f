"""Writes tests/layers/torch.inc: what PyTorch computes for layers of forks, and its gradients.

Usage: torch_layers.py > tests/layers/torch.inc  (needs PyTorch and torchvision)
"""
import itertools

import torch
import torchvision
from torch.nn import functional as F
from torch_cases import pattern, write_cases

REGIONS = torch.tensor([[0, 0, 0, 7, 5], [1, 2, 1, 5, 6], [0, 3, 2, 3, 2], [1, 4, 3, 9, 9]]).double()
LABELS = torch.tensor([2, 0, 1, 2, 1, 0]).double()
# At most 31 / 32, so that no place of a window is outside: torchvision has another border.
OFFSETS = (torch.arange(2 * 16 * 9) * 37 % 32 / 32).reshape(2, 16, 3, 3).double()
MASK = (torch.arange(12) * 7 % 16).reshape(1, 3, 2, 2).double()


def smooth(a, b, sigma, inside, outside, divisor):
    return (outside * F.smooth_l1_loss(inside * a, inside * b, reduction="none", beta=1 / sigma**2)).sum() / divisor


def reorg(x, stride):
    n, c, h, w = x.shape
    small = c // stride**2
    apart = F.pixel_unshuffle(x.reshape(n, small, h * stride, w * stride), stride)
    return apart.reshape(n, small, stride**2, h, w).transpose(1, 2).reshape(n, c * stride**2, h // stride, w // stride)


def interp(height, width):
    return lambda x: F.interpolate(x, (height, width), mode="bilinear", align_corners=True)


def normalize(x, scale):
    return F.normalize(x, dim=1) * scale.reshape(1, -1, 1, 1)


def shifted_parts(x, regions, offsets, scale, group, samples, deviation):
    """Places are weighted by how near cells are. Parts have pooled size `group`."""
    height, width = x.shape[2:]
    rows, columns = torch.arange(height).double(), torch.arange(width).double()
    outputs, part = x.shape[1] // group**2, offsets.shape[3]
    classes = offsets.shape[1] // 2
    y = []
    for r, o, i, j in itertools.product(range(len(regions)), range(outputs), range(group), range(group)):
        image, left, top, right, bottom = regions[r].tolist()
        extent = [max((right + 1 - left) * scale, 0.1), max((bottom + 1 - top) * scale, 0.1)]
        pair = offsets[r].reshape(classes, 2, part, part)[o * classes // outputs]
        shift = pair[:, i * part // group, j * part // group]
        steps = torch.arange(samples).double() / samples
        z = left * scale - 0.5 + extent[0] * ((j + steps) / group + deviation * shift[0])
        v = top * scale - 0.5 + extent[1] * ((i + steps) / group + deviation * shift[1])
        keeps = ((v >= -0.5) & (v <= height - 0.5))[:, None] & (z >= -0.5) & (z <= width - 0.5)
        near = [(1 - (at.clamp(0, len(cells) - 1)[:, None] - cells).abs()).clamp(min=0)
                for at, cells in ((v, rows), (z, columns))]
        values = near[0] @ x[int(image), (o * group + i) * group + j] @ near[1].T
        y.append((values * keeps).sum() / keeps.sum().clamp(min=1))
    return torch.stack(y).reshape(len(regions), outputs, group, group)


def softmax_each(x, label):
    each = F.cross_entropy(x, label.long(), reduction="none")
    return each.mean(), F.softmax(x, 1).detach(), each.detach()


def unpool(x, mask):
    return F.max_unpool2d(x, mask.long(), 2, output_size=(4, 4))


def local(x, weights, bias):
    columns = F.unfold(x, 3, padding=1, stride=2)
    y = torch.einsum("okp,nkp->nop", weights[:, 0], columns) + bias[0]
    return y.reshape(2, 3, 3, 2)


def sampled(x, rows, columns, padding):
    """Bilinear samples of x at positions in pixels."""
    last = [x.shape[2] - 1, x.shape[3] - 1]
    grid = torch.stack([2 * columns / last[1] - 1, 2 * rows / last[0] - 1], -1)
    return F.grid_sample(x, grid, padding_mode=padding, align_corners=True)


def transform(x, theta):
    rows = (2 * torch.arange(3).double() / 3 - 1)[:, None].expand(3, 5)
    columns = (2 * torch.arange(5).double() / 5 - 1).expand(3, 5)
    at = torch.einsum("nrk,khw->nrhw", theta.reshape(2, 2, 3), torch.stack([rows, columns, torch.ones(3, 5).double()]))
    return sampled(x, 4 * (at[:, 0] + 1) / 2, 6 * (at[:, 1] + 1) / 2, "zeros")


def warp(x, flow):
    rows = torch.arange(4).double()[:, None] + flow[:, 1]
    columns = torch.arange(5).double() + flow[:, 0]
    inside = (rows >= 0) & (columns >= 0) & (rows < 4) & (columns < 5)
    return sampled(x, rows, columns, "border") * inside[:, None]


def resample(size, mode):
    return lambda x: F.interpolate(x, size, mode=mode, antialias=True)


def correlate(a, b):
    b = F.pad(b, (2, 2, 2, 2))
    shifts = [(y, x) for y in (0, 2, 4) for x in (0, 2, 4)]
    return torch.stack([(a * b[:, :, y:y + 4, x:x + 5]).mean(1) for y, x in shifts], 1)


def convolve_regions(x, w, b):
    rows = []
    for i, top in enumerate((0, 1, 2, 3)):
        row = [F.conv2d(x[:, :, top:top + 3, left:left + 4], w[2 * i + j].reshape(6, 2, 2, 3), b[2 * i + j].reshape(-1),
                        (1, 2), (0, 1), 1, 2) for j, left in enumerate((0, 4))]
        rows.append(torch.cat(row, 3))
    return torch.cat(rows, 2)


def correlate_rows(a, b):
    b = F.pad(b, (3, 2))
    return torch.stack([(a * b[:, :, :, x:x + 5]).mean(1) for x in range(3)], 1)


# Type, body, what the bottoms are (a shape, or values that have no gradient), shapes of the parameters, function of
# bottoms and parameters; its first result is the one with a gradient.
CASES = [
    ("Axpy", "", [(2, 3), (2, 3, 2, 4), (2, 3, 2, 4)], [], lambda a, x, y: a[:, :, None, None] * x + y),
    ("Clip", "clip_param { min: -0.5 max: 0.75 }", [(2, 3, 5)], [], lambda x: F.hardtanh(x, -0.5, 0.75)),
    ("ConvolutionDepthwise", "convolution_param { num_output: 6 kernel_size: 3 stride: 2 pad: 1 }", [(2, 3, 6, 5)],
     [(3, 1, 3, 3), (3,)], lambda x, w, b: F.conv2d(x, w, b, 2, 1, 1, 3)),
    ("DepthwiseConvolution", "convolution_param { num_output: 4 group: 4 kernel_size: 3 dilation: 2 pad: 2 }",
     [(2, 4, 6, 5)], [(4, 1, 3, 3), (4,)], lambda x, w, b: F.conv2d(x, w, b, 1, 2, 2, 4)),
    ("GELU", "", [(3, 4, 5)], [], F.gelu),
    ("GELU", "gelu_param { approximate: true }", [(3, 4, 5)], [], lambda x: F.gelu(x, approximate="tanh")),
    ("Interp", "interp_param { height: 7 width: 9 }", [(2, 2, 4, 5)], [], interp(7, 9)),
    ("Interp", "interp_param { shrink_factor: 2 }", [(2, 2, 7, 9)], [], interp(4, 5)),
    ("Interp", "interp_param { height: 5 width: 4 pad_beg: -1 pad_end: -2 }", [(1, 2, 6, 7)], [],
     lambda x: interp(5, 4)(x[:, :, 1:-2, 1:-2])),
    ("L1Loss", "", [(3, 4), (3, 4)], [], lambda a, b: F.l1_loss(a, b, reduction="sum") / 3),
    ("MnActivation", "", [(3, 4)], [], lambda x: x * 1),
    ("Normalize", "norm_param { across_spatial: false channel_shared: false eps: 1e-30 }", [(2, 3, 2, 4)], [(3,)],
     normalize),
    ("PSROIPooling", "psroi_pooling_param { output_dim: 1 group_size: 2 spatial_scale: 1 }",
     [(2, 4, 8, 9), torch.minimum(REGIONS, torch.tensor([1, 9, 9, 7, 6]))], [],
     lambda x, r: torchvision.ops.ps_roi_pool(x, r + torch.tensor([0, 0, 0, 1, 1]), 2, 1.0)),
    ("ROIAlign", "roi_align_param { pooled_h: 3 pooled_w: 2 spatial_scale: 0.75 sampling_ratio: 2 }",
     [(2, 1, 8, 9), REGIONS], [], lambda x, r: torchvision.ops.roi_align(x, r, (3, 2), 0.75, 2, False)),
    ("ROIPooling", "roi_pooling_param { pooled_h: 3 pooled_w: 2 spatial_scale: 0.75 }", [(2, 1, 8, 9), REGIONS], [],
     lambda x, r: torchvision.ops.roi_pool(x, r, (3, 2), 0.75)),
    ("ReLU6", "", [(3, 40)], [], F.relu6),
    ("Reorg", "reorg_param { stride: 2 }", [(1, 8, 4, 6)], [], lambda x: reorg(x, 2)),
    ("SeLu", "", [(3, 4, 5)], [], F.selu),
    ("ShuffleChannel", "shuffle_channel_param { group: 3 }", [(2, 12, 3, 2)], [],
     torch.nn.ChannelShuffle(3)),
    ("SmoothL1Loss", "smooth_l1_loss_param { sigma: 2 }", [(3, 8), (3, 8), pattern((3, 8), 7), pattern((3, 8), 8)], [],
     lambda a, b, i, o: smooth(a, b, 2, i, o, 3)),
    ("SmoothL1LossOHEM", "loss_param { normalization: BATCH_SIZE } smooth_l1_loss_param { sigma: 2 }",
     [(3, 8), (3, 8), pattern((3, 8), 7)], [], lambda a, b, i: smooth(a, b, 2, i, 1, 3)),
    ("SoftmaxWithLossOHEM", "", [(6, 3), LABELS], [], softmax_each),
    ("Swish", "swish_param { beta: 1.5 }", [(3, 4, 5)], [], lambda x: F.silu(1.5 * x) / 1.5),
    ("Upsample", "upsample_param { scale: 3 }", [(2, 2, 3, 2)], [], lambda x: F.interpolate(x, scale_factor=3)),
    ("Upsample", "upsample_param { scale: 2 }", [(1, 3, 2, 2), MASK], [], unpool),
    ("Pooling", "pooling_param { kernel_size: [2, 3, 2] stride: [1, 2, 2] pad: [1, 1, 0] }", [(2, 2, 3, 5, 4)], [],
     lambda x: F.max_pool3d(x, (2, 3, 2), (1, 2, 2), (1, 1, 0))),
    ("Pooling", "pooling_param { pool: AVE kernel_size: 2 stride: 2 round_mode: FLOOR }", [(1, 2, 4, 5, 6)], [],
     lambda x: F.avg_pool3d(x, 2, 2)),
    ("Pooling", "pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 avg_include_pad: false }", [(1, 2, 9)], [],
     lambda x: F.avg_pool1d(x, 3, 2, 1, count_include_pad=False)),
    ("Pooling", "pooling_param { pool: AVE global_pooling: true }", [(2, 3, 2, 3, 4)], [],
     lambda x: F.adaptive_avg_pool3d(x, 1)),
    ("Convolution", "convolution_param { num_output: 4 group: 2 kernel_size: [2, 3, 3] stride: [1, 2, 1] pad: 1 }",
     [(1, 4, 3, 5, 4)], [(4, 2, 2, 3, 3), (4,)], lambda x, w, b: F.conv3d(x, w, b, (1, 2, 1), 1, 1, 2)),
    ("Deconvolution", "convolution_param { num_output: 3 kernel_size: [1, 3, 2] stride: [1, 2, 2] pad: [0, 1, 0] }",
     [(1, 2, 2, 3, 2)], [(2, 3, 1, 3, 2), (3,)], lambda x, w, b: F.conv_transpose3d(x, w, b, (1, 2, 2), (0, 1, 0))),
    ("LRN", "lrn_param { local_size: 3 alpha: 0.7 beta: 0.75 k: 2 }", [(2, 5, 2, 3, 2)], [],
     lambda x: F.local_response_norm(x, 3, 0.7, 0.75, 2.0)),
    ("BatchNorm", "batch_norm_param { eps: 0.1 }", [(2, 3, 2, 3, 2)], [(3,), (3,), (1,)],
     lambda x, *statistics: F.batch_norm(x, None, None, training=True, eps=0.1) + sum(0 * v.sum() for v in statistics)),
    ("Transpose", "transpose_param { dim: 2 dim: 0 dim: 1 }", [(2, 3, 4)], [], lambda x: x.permute(2, 0, 1)),
    ("Transpose", "", [(2, 3, 4, 2)], [], lambda x: x.permute(0, 2, 3, 1).reshape(16, 3)),
    ("GroupNorm", "group_norm_param { group_num: 3 }", [(2, 6, 2, 4)], [], lambda x: F.group_norm(x, 3)),
    ("GroupNorm", "group_norm_param { group: 2 eps: 0.5 }", [(2, 4, 5)], [(1, 4, 1, 1), (1, 4, 1, 1)],
     lambda x, w, b: F.group_norm(x, 2, w.reshape(-1), b.reshape(-1), 0.5)),
    ("Unpooling", "unpooling_param { kernel_size: 2 stride: 2 unpool_size: 4 }", [(1, 3, 2, 2), MASK], [], unpool),
    ("Unpooling", "unpooling_param { unpool: TILE kernel_size: 3 stride: 3 unpool_h: 9 unpool_w: 6 }", [(2, 2, 3, 2)],
     [], lambda x: F.interpolate(x, scale_factor=3)),
    ("Unpooling", "unpooling_param { unpool: AVE kernel_size: 3 stride: 2 unpool_size: 7 }", [(1, 2, 3, 3)], [],
     lambda x: F.conv_transpose2d(x, torch.full((2, 1, 3, 3), 1 / 9).double(), stride=2, groups=2)),
    ("Reverse", "reverse_param { axis: 0 axis: 2 }", [(3, 2, 4)], [], lambda x: x.flip(0, 2)),
    ("Flip", "", [(2, 2, 3, 4)], [], lambda x: x.flip(3)),
    ("Local", "local_param { num_output: 3 kernel_size: 3 stride: 2 pad: 1 }", [(2, 2, 5, 4)],
     [(3, 1, 18, 6), (1, 1, 3, 6)], local),
    ("LocalConvolution", "local_convolution_param { num_output: 3 kernel_size: 3 stride: 2 pad: 1 }", [(2, 2, 5, 4)],
     [(3, 1, 18, 6), (1, 1, 3, 6)], local),
    ("LocalConvolution", "local_conv_param { num_output: 6 group: 2 kernel_h: 2 kernel_w: 3 stride_h: 1 stride_w: 2 "
     "pad_h: 0 pad_w: 1 local_region_number_h: 4 local_region_number_w: 2 local_region_ratio: 0.5 "
     "local_region_step: 1 }", [(2, 4, 6, 8)], [(8, 12, 2, 3), (8, 6, 1, 1)], convolve_regions),
    ("SpatialTransformer", "st_param { output_H: 3 output_W: 5 }", [(2, 2, 4, 6), (2, 6)], [], transform),
    ("FlowWarp", "", [(2, 2, 4, 5), pattern((2, 2, 4, 5), 1) / 8 + 0.003], [], warp),
    ("Resample", "resample_param { height: 8 width: 10 }", [pattern((1, 2, 4, 5), 0)], [],
     resample((8, 10), "bilinear")),
    ("Resample", "resample_param { height: 3 width: 4 }", [pattern((1, 2, 9, 12), 0)], [],
     resample((3, 4), "bilinear")),
    ("Resample", "resample_param { height: 4 width: 6 type: CUBIC }", [pattern((1, 2, 10, 15), 0)], [],
     resample((4, 6), "bicubic")),
    ("Correlation", "correlation_param { pad: 2 kernel_size: 1 max_displacement: 2 stride_2: 2 }",
     [(2, 3, 4, 5), (2, 3, 4, 5)], [], correlate),
    ("DeformableConvolution", "deformable_convolution_param { num_output: 4 kernel_size: 2 stride: 2 "
     "dilation: 2 group: 2 }",
     [(2, 4, 8, 8), OFFSETS], [(4, 2, 2, 2), (4,)],
     lambda x, o, w, b: torchvision.ops.deform_conv2d(x, o, w, b, 2, 0, 2)),
    ("Normalize", "normalize_param { }", [(2, 3, 2, 4)], [],
     lambda x: (F.normalize(x, dim=1), x.detach().norm(dim=1, keepdim=True))),
    ("Normalize", "normalize_param { normalize_type: 'L1' }", [(4, 5)], [],
     lambda x: x / (x.abs().sum(1, keepdim=True) + 1e-6)),
    ("DeformablePSROIPooling", "deformable_psroi_pooling_param { spatial_scale: 0.75 output_dim: 2 group_size: 2 "
     "sample_per_part: 2 trans_std: 0.1 }", [(2, 8, 6, 7), REGIONS, pattern((4, 4, 2, 2), 2)], [],
     lambda x, r, o: shifted_parts(x, r, o, 0.75, 2, 2, 0.1)),
    ("Correlation1D", "correlation_param { pad: 2 kernel_size: 1 max_displacement: 2 single_direction: -1 }",
     [(2, 3, 4, 5), (2, 3, 4, 5)], [], correlate_rows),
]


# Type, ratio, function. Each value is kept, and changed, or dropped: then it becomes what all others become.
DROPS = [("Dropout", 0.25, F.dropout), ("SeLuDropout", 0.1, F.alpha_dropout), ("SeLuDropout", 0.5, F.alpha_dropout),
         ("SpatialDropout", 0.4, F.dropout2d)]
DROPPED_FROM = [-1.5, 0.75]


def emit_drops():
    rows = []
    for kind, ratio, function in DROPS:
        drawn = [function(torch.full((64, 16, 2, 2), x).double(), ratio, training=True) for x in DROPPED_FROM]
        found = [{round(v, 9) for v in d.flatten().tolist()} for d in drawn]
        dropped, = found[0] & found[1]
        for x, values in zip(DROPPED_FROM, found):
            kept, = values - {dropped}
            rows.append(f'    {{"{kind}", {ratio}, {x}, {kept}, {dropped}}},')
    print("static const drop_case torch_drops[] = {\n" + "\n".join(rows) + "\n};")


def main():
    print(f"/* Computed with PyTorch {torch.__version__.split('+')[0]} and torchvision "
          f"{torchvision.__version__.split('+')[0]} by tests/layers/torch_layers.py, in\n * double. "
          "Blob n, bottoms before parameters, has the elements ((i + 11 n) * 37 % 101 - 50.5) / 32\n"
          " * (times 7.5 for ReLU6), where torch_given does not hold its values; so has the gradient of the\n"
          " * first top, as blob 5, but that of a loss is 1. */")
    write_cases(CASES, "torch")
    emit_drops()


if __name__ == "__main__":
    main()
