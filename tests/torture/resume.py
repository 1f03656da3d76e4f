"""Runs cut into pieces at random iterations against the uninterrupted run."""
import rig as r
from kill import go_on


def run_case(rig, case):
    number, config, ref, stops = case
    name = f"resume {number} {config.name} after {stops}"
    folder = rig.new_folder(f"resume_{number}")
    r.write_case(folder, config, rig.iterations)
    done, state = 0, None
    for stop in stops:
        more = [] if state is None else ["-snapshot", state]
        result = rig.run(folder, [*r.TRAIN, *more, "-iterations", stop - done],
                         threads=config.threads)
        if result.code != 0:
            rig.fail(name, f"exit code {result.code} before iteration {stop}", result.text)
            return
        done, state = stop, r.newest_state(r.snapshots(folder)[0])
        if r.iteration_of(state) != stop:
            rig.fail(name, f"no state of iteration {stop}, but {state}")
            return
        rig.count("stops at a random iteration")
    go_on(rig, name, folder, config, ref.files, state)
    rig.count("runs in pieces that end bit for bit as the whole one")


def run(rig, cases):
    work = []
    for number, config, reference in rig.numbered(cases):
        stops = rig.random.sample(range(1, rig.iterations), rig.random.randint(1, 3))
        work.append((number, config, reference, sorted(stops)))
    rig.each(lambda case: run_case(rig, case), work)
