"""Handled signals at every moment, alone and in bursts, from the first millisecond to the last.

SIGINT stops with a snapshot and exit code 0, SIGTERM likewise with 143; a second one of the kind
ends the program at once. SIGHUP leaves a snapshot, SIGUSR1 a report, and training goes on. Before
"Starting Optimization" nothing is there to be saved and a signal has its usual effect.
"""
import signal
import time

import rig as r
from kill import go_on

ENDING = {"INT": 0, "TERM": 143}


def check_code(rig, name, code, sent, text):
    """Whether the run may have ended like this."""
    counts = {kind: sent.count(kind) for kind in set(sent)}
    allowed = {0} | {ENDING[kind] for kind in counts if kind in ENDING}
    for kind, number in counts.items():
        at_once = "Starting Optimization" not in text or (kind in ENDING and number > 1)
        if at_once:
            allowed.add(-getattr(signal, "SIG" + kind))
    if code not in allowed:
        rig.fail(name, f"exit code {code} after {sent}", text)
    stopped = "Optimization stopped early" in text
    if stopped and "TERM" in counts and "INT" not in counts and code != 143:
        if code != -signal.SIGTERM:
            rig.fail(name, f"stopped by SIGTERM with exit code {code}", text)
    return stopped and code in (0, 143)


def run_case(rig, case):
    number, config, ref, moments = case
    sent = [kind for _, kind in moments]
    name = f"signals {number} {config.name} " + " ".join(f"{k}@{s:.3f}" for s, k in moments)
    folder = rig.new_folder(f"signals_{number}")
    r.write_case(folder, config, rig.iterations)
    began = time.monotonic()
    process = rig.start(folder, r.TRAIN, threads=config.threads)
    for share, kind in moments:
        time.sleep(max(0.0, began + share * ref.seconds - time.monotonic()))
        process.send_signal(getattr(signal, "SIG" + kind))
        rig.count(f"SIG{kind} sent")
    result = rig.end(process)
    judge(rig, name, folder, config, ref, sent, result.code, result.text)


def run_call(rig, case):
    """The same at one of the calls on files, the program's own and its libraries'."""
    number, config, ref, kind, at = case
    name = f"signals {number} {config.name} {kind} at call {at}"
    folder = rig.new_folder(f"signals_{number}")
    r.write_case(folder, config, rig.iterations)
    result = rig.inject(folder, r.TRAIN, kind, at, threads=config.threads)
    code = -result.signal if result.signal else result.code
    rig.count(f"SIG{kind} sent")
    judge(rig, name, folder, config, ref, [kind], code, result.text)


def judge(rig, name, folder, config, ref, sent, code, text):
    stopped = check_code(rig, name, code, sent, text)
    found, rest = r.snapshots(folder)
    periodic = {key: value for key, value in found.items() if key in ref.files}
    for key, value in periodic.items():
        if value != ref.files[key]:
            rig.fail(name, f"{key} differs from that of the run without signals")
    if code in (0, 143) and rest:
        rig.fail(name, f"left over: {rest}")
    state, last = r.newest_state(found), r.last_names(config, rig.iterations)
    # Stopped in the very first test, training has nothing to keep.
    if stopped and not state and "lr = " in text:
        rig.fail(name, "stopped early without a snapshot", text)
    rig.count("stops with a snapshot" if stopped else
              "runs to the end" if code in (0, 143) else "ends at once")
    # Resumed from the one before the last where the run went to its end.
    if state in last:
        state = r.newest_state([key for key in found if key not in last])
    go_on(rig, name, folder, config, ref.files, state)
    rig.count("resumes, bit for bit", state is not None)


def run(rig, cases):
    configs = rig.random.sample(r.CONFIGS, 2) if rig.short else r.CONFIGS
    references = rig.references(configs)
    draw, work, calls = rig.random, [], []
    for number in range(cases):
        config = configs[number % len(configs)]
        ref = references[config.name]
        if rig.injector is not None and number // len(configs) % 2:
            calls.append((number, config, ref, draw.choice(["INT", "TERM", "HUP", "USR1"]),
                          draw.randint(1, ref.all_calls)))
            continue
        kinds = draw.choices(["HUP", "USR1", "INT", "TERM"], [6, 6, 1, 1], k=draw.choice([1, 1, 3, 20]))
        at = draw.random() * 1.05
        burst = draw.random() < 0.5
        moments = sorted((at if burst else draw.random() * 1.05, kind) for kind in kinds)
        work.append((number, config, ref, moments))
    rig.each(lambda case: run_case(rig, case), work)
    rig.each(lambda case: run_call(rig, case), calls)
