"""Writes tests/layers/torch_losses.inc: what PyTorch computes for losses of forks, and their gradients.

Usage: torch_losses.py > tests/layers/torch_losses.inc  (needs PyTorch)
"""
import torch
from torch.nn import functional as F
from torch_cases import pattern, write_cases

LABELS = torch.tensor([2, 0, 1, 2, 1, 0]).double()
MAP = (torch.arange(8) * 5 % 3).reshape(2, 2, 2).double()
SAME_SIGNS = pattern((2, 6), 0) * (2 + torch.arange(12).reshape(2, 6) % 3) / 2
WEIGHTS = (torch.arange(8) % 3 / 2).reshape(2, 2, 2).double()


def kl_div(x, target):
    """The gradient is the fork's, which is not the derivative: a second sum, 0, brings it."""
    e = 1e-6
    total = x.detach().flatten(1).abs().sum(1, keepdim=True)
    values = x.detach().flatten(1)
    p = target.flatten(1) / (target.flatten(1).abs().sum(1, keepdim=True) + e)
    loss = (p * torch.log(p / (values / (total + e) + e) + e)).sum() / len(x)
    slope = -p * (total - values) / (total * values + e) / len(x)
    return loss + ((x.flatten(1) - values) * slope).sum()


def center(x, label, centres):
    """The second sum gives the gradient of the centres, and its value is subtracted again."""
    own = centres[label.long()]
    size = torch.bincount(label.long(), minlength=len(centres))
    pace = 1 / (1 + size.double())[label.long()]
    moves = (pace * ((own - x.detach())**2).sum(1)).sum() / 2
    return ((x - own.detach())**2).sum() / (2 * len(x)) + moves - moves.detach()


def triplet(margin):
    def loss(a, p, n, weight=1):
        gap = margin + ((a - p)**2).sum(1) - ((a - n)**2).sum(1)
        return (weight * F.relu(gap)).sum() / (2 * len(a))
    return loss


def pairs(margin):
    def loss(a, p, n, d, e):
        return triplet(margin)(a, p, n) + ((d - e)**2).sum() / (2 * len(a))
    return loss


def sets(negatives, margin, term, pair=False):
    """Terms of a reference and a positive with each negative of the set."""
    def loss(x, label=None):
        x = x.reshape(-1, 2 + negatives, x[0].numel())
        near = ((x[:, 0] - x[:, 1])**2).sum(1)
        far = ((x[:, :1] - x[:, 2:])**2).sum(2)
        return (F.relu(term(near[:, None], far, margin)).sum() + (near.sum() if pair else 0)) / (2 * len(x))
    return loss


def groups(size, margin, scale):
    def loss(x, label):
        gaps = []
        for k in range(0, len(x), size):
            far = ((scale * (x[k] - x[k + 1:k + size]))**2).sum(1)
            same = label[k + 1:k + size] == label[k]
            if same.any() and not same.all():
                gaps.append(F.relu(margin + far[same].max() - far[~same].min()))
        return sum(gaps) / (2 * len(gaps))
    return loss


def first_label(x, label):
    count = int((label == label[0]).long().cumprod(0).sum())
    far = torch.cdist(x, x)**2
    return torch.stack([F.relu(1 + far[a, p] - far[a, n]) for a in range(count) for p in range(a + 1, count)
                        for n in range(count, len(x))]).mean()


def cosines(margin):
    def loss(x, numbers):
        a, p, n = (x[numbers[:, k].long()] for k in range(3))
        return F.relu(margin + F.cosine_similarity(a, n) - F.cosine_similarity(a, p)).sum() / len(x)
    return loss


def focal(alpha, gamma):
    def loss(x, label):
        each = F.cross_entropy(x, label.long(), reduction="none")
        return alpha * ((1 - torch.exp(-each))**gamma * each).mean()
    return loss


def linear_focal(alpha, beta, gamma):
    def loss(x, label):
        p = torch.exp(-F.cross_entropy(x, label.long(), reduction="none"))
        return alpha * (-F.logsigmoid(gamma * torch.logit(p) + beta) / gamma).mean()
    return loss


def sigmoid_focal(alpha, gamma, beta=None, ignored=-1):
    """Linear if there is a beta."""
    def loss(x, label):
        yes, kept = label == 1, label != ignored
        t, a = torch.where(yes, x, -x), torch.where(yes, alpha, 1 - alpha)
        if beta is None:
            each = -(1 - torch.sigmoid(t))**gamma * F.logsigmoid(t)
        else:
            each = -F.logsigmoid(gamma * t + beta) / gamma
        return (a * each)[kept].sum() / (len(x) if ignored < 0 else kept.sum())
    return loss


def weighted(x, label, weight):
    return (weight * F.cross_entropy(x, label.long(), reduction="none")).mean()


def class_weighted(x, label):
    return F.cross_entropy(x, label.long(), torch.tensor([1, 0.5, 3]).double(), reduction="sum") / label.numel()


WORDS = torch.tensor([[1, 2, 0, 0], [3, 3, 1, 0], [2, 2, 2, 2]]).double()
ENDING = torch.tensor([[0, 0, 0], [1, 1, 1], [1, 1, 1], [1, 1, 1], [1, 0, 1], [1, 1, 1]]).double()
TRANSPOSED = torch.tensor([[1, 0, 2], [2, -1, 2], [-1, -1, -1]]).double()
LONG = pattern((6, 3, 4), 3)


def ctc(x, label):
    lengths = (label > 0).sum(1)
    found = F.ctc_loss(F.log_softmax(x, 2), label.long(), torch.full((3,), 6), lengths, 0, "none", True)
    return found.mean()


def ctc_ending(x, ending, label):
    lengths = (label >= 0).sum(0)
    found = F.ctc_loss(F.log_softmax(x, 2), label.T.clamp(0).long(), torch.tensor([6, 4, 6]), lengths, 3, "none")
    return found.mean()


def best_path(scores, blank):
    kept = [c for c in torch.unique_consecutive(scores.argmax(1)).tolist() if c != blank]
    return torch.tensor(kept + [-1] * (len(scores) - len(kept))).double()


def decode(x, ending):
    steps = [6, 4, 6]
    paths = [torch.cat([best_path(x[:n, k], 3), torch.full((6 - n,), -1.0)]) for k, n in enumerate(steps)]
    return torch.stack(paths), torch.stack([-x[:n, k].amax(1).sum() for k, n in enumerate(steps)])


def hits(x, label):
    paths = torch.stack([best_path(scores, 0) for scores in x])
    return (paths == torch.where(label == 0, -1.0, label)).all(1).double().mean()


def angle(m, power):
    """cos(m t) - 2 k of the angle t, with the sign of its section k."""
    def value(c):
        t = torch.arccos(c)
        k = torch.floor(m * t / torch.pi).detach()
        return (-1)**k * torch.cos(m * t) - 2 * k

    def scores(x, label, weights):
        """SphereFace's gradients: of x by two factors of norm 1, of the weights as without an angle."""
        weight = F.normalize(weights.detach())
        plain = x @ weight.T
        norm, own = x.detach().norm(dim=1), weight[label.long()]
        c = ((x * own).sum(1) / norm).detach().requires_grad_()
        slope, = torch.autograd.grad(value(c).sum(), c)
        of_x = (value(c) - c * slope) / norm
        length = torch.sqrt(slope**2 + of_x**2)
        direction = (slope / length)[:, None] * own + (of_x / length)[:, None] * x.detach()
        moved = norm * value(c).detach() + ((x - x.detach()) * direction.detach()).sum(1)
        decay = 10 * 1.5**-power
        one = F.one_hot(label.long(), len(weights)).double()
        mixed = plain * (1 - one) + one * ((moved[:, None] + decay * plain) / (1 + decay))
        turned = weights - weights.detach()
        return mixed + x.detach() @ turned.T, torch.tensor([decay], dtype=torch.float64)
    return scores


def pixel(x, row, column):
    """Values of planes x (C, H, W) at whole places, which may be any number."""
    c, height, width = x.shape
    inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
    flat = row.clamp(0, height - 1) * width + column.clamp(0, width - 1)
    return x.reshape(c, -1)[:, flat] * inside


def between(x, y, z):
    """Places below the last row or after the last column count as the border; others outside are 0."""
    _, height, width = x.shape
    inside = (y >= 0) & (z >= 0) & (y < height) & (z < width)
    y, z = y.clamp(max=height - 1), z.clamp(max=width - 1)
    row, column = y.detach().floor().long(), z.detach().floor().long()
    v, h = y - row, z - column
    return inside * ((1 - v) * (1 - h) * pixel(x, row, column) + (1 - v) * h * pixel(x, row, column + 1)
                     + v * (1 - h) * pixel(x, row + 1, column) + v * h * pixel(x, row + 1, column + 1))


def deformed(x, offset, weight, bias):
    """A kernel of 3 x 3, stride 1, pad 1, two deformable groups."""
    n, c, height, width = x.shape
    rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    off = offset.reshape(n, 2, 9, 2, height, width)
    found = torch.stack([torch.cat([torch.stack([
        between(x[i, g * c // 2:(g + 1) * c // 2], rows - 1 + k // 3 + off[i, g, k, 0], columns - 1 + k % 3 + off[i, g, k, 1])
        for k in range(9)], 1) for g in range(2)]) for i in range(n)])
    return torch.einsum("nckhw,ock->nohw", found, weight.flatten(2)) + bias.reshape(1, -1, 1, 1)


# Two sequences have the right labels.
BEST = torch.stack([best_path(scores, 0) for scores in LONG.reshape(3, 6, 4)]).clamp(0)
BEST[1, 0] = 1 + BEST[1, 0] % 3

# As in torch_layers.py.
CASES = [
    ("CTCGreedyDecoder", "", [LONG, ENDING], [], decode),
    ("CTCLoss", "", [(6, 3, 4), WORDS], [], ctc),
    ("CTCLoss", "", [(6, 3, 4), ENDING, TRANSPOSED], [], ctc_ending),
    ("CTCLoss", "ctc_param { blank_index: 0 }", [(3, 4, 1, 6), WORDS - (WORDS == 0).double()], [],
     lambda x, label: ctc(x[:, :, 0].permute(2, 0, 1), label.clamp(0))),
    ("CenterLoss", "center_loss_param { num_output: 4 }", [(6, 5), LABELS], [(4, 5)], center),
    ("DeformableConvolution", "deformable_convolution_param { num_output: 3 kernel_size: 3 pad: 1 deformable_group: 2 }",
     [(2, 4, 4, 3), (2, 36, 4, 3)], [(3, 4, 3, 3), (3,)], deformed),
    ("FocalLoss", "focal_loss_param { alpha: 0.25 gamma: 2 }", [(6, 3), LABELS], [], focal(0.25, 2)),
    ("FocalLoss", "focal_loss_param { alpha: 0.75 gamma: 1.25 }", [(2, 3, 2, 2), MAP], [], focal(0.75, 1.25)),
    ("FocalLoss", "focal_loss_param { type: LINEAR alpha: 0.5 beta: 0.75 gamma: 1.5 }", [(6, 3), LABELS], [],
     linear_focal(0.5, 0.75, 1.5)),
    ("FocalLoss", "focal_loss_param { alpha: 0.25 gamma: 2 }", [(2, 2, 2, 2), (MAP == 1).repeat(1, 2, 1).reshape(2, 2, 2, 2).double()],
     [], sigmoid_focal(0.25, 2)),
    ("FocalLoss", "focal_loss_param { type: LINEAR alpha: 0.6 gama: 2.5 } loss_param { normalization: VALID ignore_label: 2 }",
     [(2, 2, 2), MAP], [], sigmoid_focal(0.6, 2.5, 1, 2)),
    ("KLDivLoss", "", [(2, 6), SAME_SIGNS], [], kl_div),
    ("LabelsequenceAccuracy", "", [LONG.reshape(3, 6, 4), BEST], [], hits),
    *[("MarginInnerProduct", f"margin_inner_product_param {{ num_output: 4 type: {name} base: 10 gamma: 0.5 power: 2 }}",
       [(6, 3), LABELS], [(4, 3)], angle(m, 2)) for m, name in [(2, "DOUBLE"), (3, "TRIPLE"), (4, "QUADRUPLE")]],
    ("TripletLoss", "triplet_loss_param { margin: 0.5 }", [(4, 3), (4, 3), (4, 3)], [], triplet(0.5)),
    ("TripletLoss", "", [(4, 3), (4, 3), (4, 3), torch.tensor([1, 0.5, 2, 0]).double()], [], triplet(1)),
    ("TripletLoss", "triplet_loss_param { margin: 0.5 }", [(4, 3)] * 5, [], pairs(0.5)),
    ("TripletLoss", "triplet_loss_param { num_negatives: 2 }", [(8, 3)], [], sets(2, 1, lambda p, n, m: m + p - n)),
    ("TripletLoss", "triplet_loss_param { num_negatives: 1 losstype: 1 margin: 0.5 use_pair: true }",
     [(6, 3), LABELS], [], sets(1, 0.5, lambda p, n, m: 1 - n / (p + m), True)),
    ("TripletLoss", "triplet_loss_param { num_negatives: 1 losstype: 2 margin: 0.75 }", [(6, 3)], [],
     sets(1, 0.75, lambda p, n, m: 1 - torch.exp(n) / (torch.exp(p) + m))),
    ("TripletLoss", "triplet_loss_param { group_size: 4 scale: 1.5 }",
     [(12, 3), torch.tensor([1, 1, 0, 1, 2, 0, 1, 0, 3, 2, 3, 2]).double()], [], groups(4, 1, 1.5)),
    ("TripletLoss", "", [(6, 3), torch.tensor([2, 2, 2, 0, 1, 2]).double()], [], first_label),
    ("TripletLoss", "triplet_loss_param { margin: 0.25 }",
     [(5, 4), torch.tensor([[0, 1, 2], [3, 4, 0], [2, 4, 1], [1, 0, 3]]).double()], [], cosines(0.25)),
    ("WeightedSoftmaxWithLoss", "", [(2, 3, 2, 2), MAP, WEIGHTS], [], weighted),
    ("WeightedSoftmaxWithLoss", "weighted_softmax_param { positions: '2,1' weights: '3,0.5' }", [(2, 3, 2, 2), MAP], [],
     class_weighted),
    ("WeightedSoftmaxWithLoss", "softmax_param { pos_mult: 3 pos_cid: 2 pos_mult: 0.5 pos_cid: 1 }",
     [(2, 3, 2, 2), MAP], [], class_weighted),
]


def main():
    print(f"/* Computed with PyTorch {torch.__version__.split('+')[0]} by tests/layers/torch_losses.py, in double,\n"
          " * from the values that torch.inc describes. */")
    write_cases(CASES, "torch_loss")


if __name__ == "__main__":
    main()
