#!/usr/bin/env python3
"""What scripts/layer_proofs.py finds wrong when a proof is taken away. Exits 1 when it misses something."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import layer_catalogue  # noqa: E402
import layer_proofs  # noqa: E402


def main():
    types = dict(layer_catalogue.types())
    classes = layer_proofs.Classes()
    failures = []

    def check(change, *wanted):
        tests = layer_proofs.Tests(set(types.values()))
        change(tests)
        found = layer_proofs.problems(types, tests, classes)
        if found != list(wanted):
            failures.append(f"{found} instead of {list(wanted)}")

    def unmarked(tests):
        tests.golden.pop("ReLU")
        tests.checked.discard("ReLU")

    def named(kind, name):
        return lambda tests: tests.named.update({kind: [name]})

    check(lambda tests: None)
    check(lambda tests: tests.others.pop("Axpy"), "Axpy: no golden case and no results of another implementation")
    check(lambda tests: tests.named.pop("DenseCRF"),
          "DenseCRF: no golden case, no kernels and no test in tests/house/layers.tsv")
    check(lambda tests: tests.checked.discard("RegionLoss"),
          "RegionLoss: no golden gradient, and no row of layer_rows.inc that checks it")
    check(lambda tests: tests.golden.pop("BNLL"), "BNLL: no golden case and no results of another implementation")
    check(unmarked, "ReLU: no golden gradient, and no row of layer_rows.inc that checks it")
    check(named("ReLU", "layers/nothing:test"), "ReLU: there is no program layers/nothing")
    check(named("ReLU", "layers/random:nothing"), "ReLU: layers/random has no test nothing")
    check(named("ReLU", "layers/random:test_dropout_seed"), "ReLU: layers/random:test_dropout_seed makes no layer of this type")
    check(named("Nothing", "layers/random:test_dropout_seed"), "tests/house/layers.tsv: Nothing: there is no such type")
    print("\n".join(failures))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
