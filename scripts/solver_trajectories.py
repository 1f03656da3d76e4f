#!/usr/bin/env python3
"""Writes tests/solver/trajectories.txt: where PyTorch's optimizers lead, which crema's are compared with.

    scripts/solver_trajectories.py > tests/solver/trajectories.txt

Needs PyTorch, of which 2.15 wrote the file. All is in double precision. Two parameters, of 6 and 2
values, begin at fixed values; their gradients depend on the iteration and on the values. The optimizers
and schedules are torch.optim's. LARS and LAMB, which it does not have, are written down here from their
papers: You, Gitman and Ginsburg, "Large batch training of convolutional networks" (2017), equation 6 and
algorithm 1; You et al., "Large batch optimization for deep learning" (2020), algorithm 2.
"""
import math

import torch

ITERATIONS, SHOWN = 25, (1, 5, 25)


class Lars(torch.optim.Optimizer):
    def __init__(self, params, lr, momentum, weight_decay, trust):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay, trust=trust))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in group["params"]:
                norm, slope = w.norm(), w.grad.norm()
                local = 1.0
                if norm > 0 and slope > 0:
                    local = group["trust"] * norm / (slope + group["weight_decay"] * norm)
                v = self.state[w].setdefault("v", torch.zeros_like(w))
                v.mul_(group["momentum"]).add_(group["lr"] * local * (w.grad + group["weight_decay"] * w))
                w.sub_(v)


class Lamb(torch.optim.Optimizer):
    def __init__(self, params, lr, betas, eps, weight_decay):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, t=0))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            group["t"] += 1
            a, b = group["betas"]
            for w in group["params"]:
                m = self.state[w].setdefault("m", torch.zeros_like(w))
                v = self.state[w].setdefault("v", torch.zeros_like(w))
                m.mul_(a).add_((1 - a) * w.grad)
                v.mul_(b).add_((1 - b) * w.grad**2)
                first, second = m / (1 - a ** group["t"]), v / (1 - b ** group["t"])
                u = first / (second.sqrt() + group["eps"]) + group["weight_decay"] * w
                ratio = w.norm() / u.norm() if w.norm() > 0 and u.norm() > 0 else 1.0
                w.sub_(group["lr"] * ratio * u)


def warm_cosine(optimizer):
    schedule = torch.optim.lr_scheduler
    rise = schedule.LinearLR(optimizer, start_factor=0.2, total_iters=5)
    fall = schedule.CosineAnnealingLR(optimizer, T_max=20, eta_min=0.01)
    return schedule.SequentialLR(optimizer, [rise, fall], milestones=[5])


def one_cycle(optimizer, **more):
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=ITERATIONS, pct_start=0.4,
                                               div_factor=10, final_div_factor=100, **more)


def momentum_of(optimizer):
    return optimizer.param_groups[0].get("momentum", 0)


# name: fields of the solver file, optimizer, and what else there is.
CASES = {
    "adamw": ("type: 'AdamW' momentum: 0.9 momentum2: 0.99 delta: 0.001 weight_decay: 0.1",
              lambda p: torch.optim.AdamW(p, lr=0.1, betas=(0.9, 0.99), eps=1e-3, weight_decay=0.1), {}),
    "adamw_usual": ("type: 'AdamW' momentum: 0.9 weight_decay: 0.01",
                    lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.01), {}),
    "adamw_clip": ("type: 'AdamW' momentum: 0.9 weight_decay: 0.01 clip_gradients: 2.5 iter_size: 3",
                   lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.01), {"clip": 2.5, "divide": 3}),
    "adamw_onecycle": ("type: 'AdamW' momentum: 0.9 lr_policy: 'onecycle' max_iter: 25 cycle_rise: 0.4 "
                       "cycle_start_div: 10 cycle_end_div: 100 weight_decay: 0.01",
                       lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.01),
                       {"schedule": lambda o: one_cycle(o, cycle_momentum=False)}),
    "adamw_ema": ("type: 'AdamW' momentum: 0.9 weight_decay: 0.01 ema_decay: 0.75",
                  lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.01), {"average": 0.75}),
    "lamb": ("type: 'LAMB' momentum: 0.9 momentum2: 0.99 delta: 0.001 weight_decay: 0.1",
             lambda p: Lamb(p, 0.1, (0.9, 0.99), 1e-3, 0.1), {}),
    "lamb_cosine": ("type: 'LAMB' momentum: 0.9 delta: 1e-6 weight_decay: 0.01 lr_policy: 'cosine' "
                    "max_iter: 25 warmup_iter: 5 warmup_start_lr: 0.02 min_lr: 0.01",
                    lambda p: Lamb(p, 0.1, (0.9, 0.999), 1e-6, 0.01), {"schedule": warm_cosine}),
    "lamb_clip": ("type: 'LAMB' momentum: 0.9 delta: 1e-6 weight_decay: 0.01 clip_gradients: 2.5 iter_size: 3",
                  lambda p: Lamb(p, 0.1, (0.9, 0.999), 1e-6, 0.01), {"clip": 2.5, "divide": 3}),
    "lars": ("type: 'LARS' momentum: 0.9 weight_decay: 0.05 local_gw_ratio: 0.3",
             lambda p: Lars(p, 0.1, 0.9, 0.05, 0.3), {}),
    "lars_clip": ("local_lr_auto: true momentum: 0.8 weight_decay: 0.05 local_gw_ratio: 0.3 "
                  "clip_gradients: 2.5 iter_size: 3",
                  lambda p: Lars(p, 0.1, 0.8, 0.05, 0.3), {"clip": 2.5, "divide": 3}),
    "sgd_cosine": ("lr_policy: 'cosine' max_iter: 25 warmup_iter: 5 warmup_start_lr: 0.02 min_lr: 0.01",
                   lambda p: torch.optim.SGD(p, lr=0.1), {"schedule": warm_cosine}),
    "sgd_onecycle": ("lr_policy: 'onecycle' max_iter: 25 cycle_rise: 0.4 cycle_start_div: 10 cycle_end_div: 100",
                     lambda p: torch.optim.SGD(p, lr=0.1),
                     {"schedule": lambda o: one_cycle(o, cycle_momentum=False)}),
    # Caffe's momentum has the rate in it and torch's has not: only the curves are compared.
    "momentum_onecycle": ("lr_policy: 'onecycle' max_iter: 25 cycle_rise: 0.4 cycle_start_div: 10 "
                          "cycle_end_div: 100 momentum: 0.8 momentum_policy: 'onecycle' max_momentum: 0.9",
                          lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8),
                          {"schedule": lambda o: one_cycle(o, base_momentum=0.8, max_momentum=0.9),
                           "curves": True}),
}


def start():
    values = [0.5 * math.cos(1 + i) for i in range(8)]
    tensor = lambda part: torch.nn.Parameter(torch.tensor(part, dtype=torch.float64))
    return torch.nn.ParameterList([tensor(values[:6]), tensor(values[6:])])


def set_gradients(params, step):
    at = 0
    for w in params:
        number = torch.arange(at, at + len(w), dtype=torch.float64)
        w.grad = torch.sin(1.3 * step + 0.7 * number) * (1 + 0.1 * number) + 0.3 * w.detach()
        at += len(w)


def show(word, values):
    print(word, *(f"{float(v):.12g}" for v in values))


def run(name, text, make, clip=None, divide=1, schedule=None, average=None, curves=False):
    params = start()
    optimizer = make(list(params))
    scheduler = schedule(optimizer) if schedule else None
    averages = None
    if average:
        averages = torch.optim.swa_utils.AveragedModel(
            params, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(average))
        averages.update_parameters(params)
    rates, momenta, shown = [], [], []
    for step in range(ITERATIONS):
        rates.append(optimizer.param_groups[0]["lr"])
        momenta.append(momentum_of(optimizer))
        set_gradients(params, step)
        if clip:
            torch.nn.utils.clip_grad_norm_(params, clip)
        for w in params:
            w.grad /= divide
        optimizer.step()
        if scheduler:
            scheduler.step() if step + 1 < ITERATIONS else None
        if averages:
            averages.update_parameters(params)
        if step + 1 in SHOWN and not curves:
            shown.append((step + 1, torch.cat([w.detach().clone() for w in params])))
            if averages:
                shown.append((-step - 1, torch.cat([w.detach().clone() for w in averages.module])))
    print("case", name)
    print("solver", text)
    show("rates", rates)
    if curves:
        show("momenta", momenta)
    for at, values in shown:
        show(f"{'after' if at > 0 else 'average'} {abs(at)}", values)


if __name__ == "__main__":
    print("# Written by scripts/solver_trajectories.py with PyTorch", torch.__version__.split("+")[0])
    for name, (text, make, more) in CASES.items():
        run(name, text, make, **more)
