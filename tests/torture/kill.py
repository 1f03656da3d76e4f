"""kill -9 at random moments; what is left must be whole, and going on from it exact.

Half of the moments are times, half are calls on the run's own files, so that snapshots are met often.
"""
import signal
import time

import rig as r


def check_left(rig, case, folder, whole):
    """Each file under a final name is the one of the uninterrupted run, and each state has a model."""
    found, _ = r.snapshots(folder)
    for name, content in found.items():
        if name not in whole or content != whole[name]:
            rig.fail(case, f"{name} looks finished and is not what the uninterrupted run wrote")
        if ".solverstate" in name and name.replace("solverstate", "caffemodel") not in found:
            rig.fail(case, f"{name} has no model")


def go_on(rig, case, folder, config, whole, state):
    """Resumes from a state (None: starts again); the end is that of the uninterrupted run."""
    more = [] if state is None else ["-snapshot", state]
    result = rig.run(folder, [*r.TRAIN, *more], threads=config.threads)
    if result.code != 0:
        rig.fail(case, f"going on from {state}: exit code {result.code}", result.text)
        return
    found, rest = r.snapshots(folder)
    if rest:
        rig.fail(case, f"left over: {rest}")
    last = r.last_names(config, rig.iterations)
    other = [name for name, content in whole.items()
             if (state is None or name in last or name in found) and found.get(name) != content]
    if other:
        rig.fail(case, f"from {state}: not bit for bit what they are without the break: {other}")


def run_case(rig, case):
    number, config, ref, share, by_call = case
    name = f"kill {number} {config.name} {'call' if by_call else 'time'} {share:.4f}"
    folder = rig.new_folder(f"kill_{number}")
    r.write_case(folder, config, rig.iterations)
    if by_call:
        code = rig.inject(folder, r.TRAIN, "KILL", 1 + int(share * ref.calls), under=folder,
                          threads=config.threads).code
        killed = code == 128 + signal.SIGKILL
    else:
        process = rig.start(folder, r.TRAIN, threads=config.threads)
        time.sleep(share * ref.seconds * 1.1)
        process.send_signal(signal.SIGKILL)
        code = rig.end(process).code
        killed = code == -signal.SIGKILL
    if not killed and code != 0:
        rig.fail(name, f"exit code {code} before the kill")
    rig.count("kills" if killed else "runs that had ended before the kill")
    found, rest = r.snapshots(folder)
    rig.count("of them while a snapshot was written", any(".tmp" in left for left in rest))
    check_left(rig, name, folder, ref.files)
    state = r.newest_state(found)
    go_on(rig, name, folder, config, ref.files, state)
    rig.count("resumes from the newest state, bit for bit" if state else "new starts, without a state")


def run(rig, cases):
    configs = 3 if rig.short else len(r.CONFIGS)
    work = []
    for number, config, reference in rig.numbered(cases):
        by_call = rig.injector is not None and number // configs % 2 == 1
        work.append((number, config, reference, rig.random.random(), by_call))
    rig.each(lambda case: run_case(rig, case), work)
