#!/usr/bin/env python3
"""What scripts/conformance.py makes of logs: skips, crashes, devices. Exits 1 when something is wrong."""
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import callgraph  # noqa: E402
import conformance  # noqa: E402

BEGIN, END = "[==========] Running 2 test(s).", "[==========] 2 test(s) run."


def log(program, lines, content, command="none"):
    end = "Test Passed." if content else "Test Failed."
    return (f'1/1 Testing: {program}\n1/1 Test: {program}\nCommand: "{command}"\nOutput:\n'
            + "\n".join(lines) + f"\n<end of output>\n{end}\n")


def one(test, word, *before):
    return [f"[ RUN      ] {test}", *before, f"[ {word:>8} ] {test}"]


def outcome(*args, **more):
    return sorted((test, result, place) for _, test, result, place
                  in conformance.results(log(*args, **more)))


def main():
    a, b = "s0_14_s0_15_copies_once", "s4_29_writes"
    both = [BEGIN, *one(a, "OK"), *one(b, "OK", "[  DEVICE  ] simulated"), END]
    with tempfile.TemporaryDirectory() as folder:
        binary = pathlib.Path(folder) / "program"
        binary.write_bytes(b"\0" + a.encode() + b"\0" + b.encode() + b"\0")
        checks = [
            # Where a test ran: by what it prints, or by its program.
            (outcome("memory/x", both, True), [(a, "pass", "cpu"), (b, "pass", "simulated")]),
            (outcome("device/rows_cuda_on_fake", both, True),
             [(a, "pass", "fake CUDA"), (b, "pass", "fake CUDA")]),
            (outcome("device/rows_cuda", both, True), [(a, "pass", "GPU"), (b, "pass", "GPU")]),
            (outcome("cuda/conformance", ["skipped: no device"], True), []),
            # A failure of one test leaves the other as it is.
            (outcome("memory/x", [BEGIN, *one(a, "FAILED"), *one(b, "OK"), END], False),
             [(a, "FAIL", "cpu"), (b, "pass", "cpu")]),
            # Crashes: in the middle, at the end, before anything was printed.
            (outcome("memory/x", [BEGIN, *one(a, "OK"), "[ RUN      ] " + b], False, str(binary)),
             [(a, "FAIL", "cpu"), (b, "FAIL", "cpu")]),
            (outcome("memory/x", both, False, str(binary)), [(a, "FAIL", "cpu"), (b, "FAIL", "cpu")]),
            (outcome("memory/x", ["Aborted"], False, str(binary)),
             [(a, "FAIL", "cpu"), (b, "FAIL", "cpu")]),
            (outcome("opencl/rows", both, True),
             [(a, "pass", "OpenCL (PoCL)"), (b, "pass", "OpenCL (PoCL)")]),
            (conformance.rows_of(a), ["S0-14", "S0-15"]),
            (conformance.ranges([1, 2, 3, 5]), "01-03, 05"),
        ]
        table = pathlib.Path(folder) / "table.md"
        found = [("memory/x", b, "skipped", "cpu"), ("memory/x", a, "pass", "cpu"),
                 ("opencl/x", "s0_14_again", "pass", "OpenCL (PoCL)"), ("memory/x", "s0_16", "pass", "simulated"),
                 ("memory/x", "s0_17", "pass", "simulated"), ("opencl/x", "s0_17", "pass", "OpenCL (PoCL)")]
        conformance.write_table(found, table)
        text = table.read_text()
    checks += [("| S4-29 | writing makes other forms stale | skipped |  |  |  |  |  |" in text, True),
               ("| S0-14 | host to device | pass | yes |  | yes |  |  |" in text, True),
               ("| used by |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n| S0-14 |" in text, True),
               ("| S0 | 30 | 4 | 01-13, 18-30 | 0 | 2 |" in text, True),
               ("* S0: 16\n* S1: none\n" in text, True),
               ("4 rows proved, 0 failing" in text, True)]
    uses = callgraph.Uses()
    checks += [(uses.of("crema_event_message"), (None, "crema_event_message")),
               (uses.of("cr_tensor_read")[0], "train"), # by way of tables of layers and of ops
               (uses.of("cr_sim_copy")[0], "train"),
               (uses.of("cr_cuda_copy")[0], "train"), # by a name that is looked up in the plug-in
               (uses.of("cr_sim_step"), (None, None)),
               (uses.exists("no_such_function"), False)]
    wrong = [(number, got, wanted) for number, (got, wanted) in enumerate(checks) if got != wanted]
    for number, got, wanted in wrong:
        print(f"check {number}: {got} instead of {wanted}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
