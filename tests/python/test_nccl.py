"""Solvers in several processes that train together by NCCL. Needs two GPUs, or fake CUDA libraries
(tests/cuda/tests.cmake)."""
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import unittest

import caffe
import case
import numpy as np
from caffe import _core

DUMMY = """
layer { name: 'data' type: 'DummyData' top: 'data' top: 'label'
  dummy_data_param { shape { dim: 4 dim: 3 } shape { dim: 4 dim: 1 } data_filler { type: 'gaussian' } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' inner_product_param {
  num_output: 2 weight_filler { type: 'gaussian' std: 1 } } }
layer { name: 'fc' type: 'InnerProduct' bottom: 'ip' top: 'fc' inner_product_param {
  num_output: 1 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'EuclideanLoss' bottom: 'fc' bottom: 'label' top: 'loss' }
"""


def begin(path, rank, count):
    """The solver of one process, as pycaffe's train.py makes it."""
    caffe.init_log(3)
    caffe.set_mode_gpu()
    caffe.set_device(rank)
    caffe.set_solver_count(count)
    caffe.set_solver_rank(rank)
    caffe.set_multiprocess(True)
    return caffe.SGDSolver(path)


def train(path, uid, rank, count, answer):
    """The whole of train.py's work in one process."""
    seen = []
    solver = begin(path, rank, count)
    nccl = caffe.NCCL(solver, uid)
    nccl.bcast()
    first = np.array(solver.net.params["ip"][0].data)
    solver.add_callback(lambda: seen.append(solver.iter), lambda: seen.append(-1))
    solver.add_callback(nccl)
    if solver.param.layer_wise_reduce:
        solver.net.after_backward(nccl)
    solver.step(solver.param.max_iter)
    answer.put((rank, first, np.array(solver.net.params["ip"][0].data), seen))


def fail(path, uid, rank, count, answer):
    """A process whose second iteration fails in Python, and the others."""
    def on_start():
        if rank == 1 and solver.iter == 2:
            raise KeyError("on purpose")
    solver = begin(path, rank, count)
    solver.add_callback(caffe.NCCL(solver, uid))
    solver.add_callback(on_start)
    try:
        solver.step(1000)
    except (KeyError, RuntimeError) as error:
        answer.put((rank, type(error).__name__, str(error)))


def die(path, uid, rank, count, answer):
    """A process that is killed, and the others."""
    def on_start():
        if rank == 1 and solver.iter == 2:
            os.kill(os.getpid(), signal.SIGKILL)
    solver = begin(path, rank, count)
    solver.add_callback(caffe.NCCL(solver, uid))
    solver.add_callback(on_start)
    try:
        solver.step(1000)
    except RuntimeError as error:
        answer.put((rank, str(error)))


def interrupt(path, uid, rank, count, answer):
    """A process that gets Ctrl-C, and the others."""
    solver = begin(path, rank, count)
    nccl = caffe.NCCL(solver, uid)
    nccl.bcast()
    if rank == 1:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        solver.step(100000000)
        how = "returned"
    except KeyboardInterrupt:
        how = "interrupted"
    stopped = solver.iter
    solver.step(1)
    answer.put((rank, how, stopped, solver.iter))


def set_weights(path, uid, rank, count, answer):
    """The first process sets weights between two calls; all have arrays of theirs."""
    solver = begin(path, rank, count)
    nccl = caffe.NCCL(solver, uid)
    weights = solver.net.params["fc"][0].data
    solver.step(1)
    solver.base_lr = 0
    if rank == 0:
        weights[...] = 100
    solver.step(1)
    stepped = np.array(weights)
    if rank == 0:
        weights[...] = 7
    nccl.bcast()
    answer.put((rank, stepped, np.array(weights)))


def misuse(path, uid, rank, count, answer):
    """Calls in a wrong order, or with wrong arguments."""
    said = []
    solver = begin(path, rank, count)
    calls = [lambda: caffe.NCCL(None, uid), lambda: caffe.NCCL(solver, "text"),
             lambda: caffe.NCCL(solver, b"short"), lambda: caffe.NCCL(solver, uid, -1),
             lambda: caffe.NCCL(solver, uid, 0.1)]
    for call in calls:
        try:
            call()
        except Exception as error:  # pylint: disable=broad-except
            said.append((type(error).__name__, str(error)))
    caffe.set_solver_count(count + 1)
    try:
        caffe.NCCL(solver, uid)
    except RuntimeError as error:
        said.append(("RuntimeError", str(error)))
    answer.put(said)


def run_all(work, path, method="spawn", count=2, answers=None):
    """What `count` processes that do `work` answer (`answers` of them), in the order of their ranks; their
    exit codes."""
    context = multiprocessing.get_context(method)
    answer = context.Queue()
    uid = caffe.NCCL.new_uid()
    processes = [context.Process(target=work, args=(path, uid, rank, count, answer), daemon=True)
                 for rank in range(count)]
    for process in processes:
        process.start()
    found = [answer.get(timeout=60) for _ in range(count if answers is None else answers)]
    for process in processes:
        process.join(60)
    return sorted(found, key=lambda one: one[0]), [process.exitcode for process in processes]


def train_forked(path):
    """Trains in two forked processes, and prints the sums of their weights."""
    answers, codes = run_all(train, path, "fork")
    print(codes, *[repr(float(answer[2].sum())) for answer in answers])


class Processes(case.FolderCase):
    """One process per GPU."""

    @classmethod
    def setUpClass(cls):
        if not caffe.has_nccl() or _core.device_count(1) < 2:
            raise unittest.SkipTest("no two GPUs with NCCL")

    def solver(self, net, more=""):
        """A solver file."""
        return self.write("solver.prototxt", "base_lr: 0.05 lr_policy: 'fixed' momentum: 0.9 max_iter: 6 "
                          "solver_mode: GPU snapshot_after_train: false random_seed: 5 %s net_param { %s }"
                          % (more, net))

    def weights_of_one(self, path, devices):
        """The weights after training in this process."""
        caffe.set_mode_gpu()
        caffe.set_devices(devices)
        try:
            solver = caffe.SGDSolver(path)
            solver.step(6)
            return np.array(solver.net.params["ip"][0].data)
        finally:
            caffe.set_device(0)
            caffe.set_mode_cpu()

    def check(self, more=""):
        """Processes train as devices of one process do."""
        path = self.solver(DUMMY, more)
        answers, codes = run_all(train, path)
        self.assertEqual(codes, [0, 0])
        for _, first, weights, seen in answers:
            np.testing.assert_array_equal(first, answers[0][1])
            np.testing.assert_array_equal(weights, answers[0][2])
            self.assertEqual(seen, [0, -1, 1, -1, 2, -1, 3, -1, 4, -1, 5, -1])
        self.assertFalse(np.array_equal(answers[0][1], answers[0][2]))
        np.testing.assert_array_equal(answers[0][2], self.weights_of_one(path, [0, 1]))

    def test_weights(self):
        self.check()

    def test_without_layer_wise_reduce(self):
        self.check("layer_wise_reduce: false")

    def test_without_a_seed(self):
        """The first process's weights become those of all."""
        path = self.solver(DUMMY)
        with open(path) as file:
            text = file.read().replace("random_seed: 5", "")
        answers, codes = run_all(train, self.write("unseeded.prototxt", text))
        self.assertEqual(codes, [0, 0])
        np.testing.assert_array_equal(answers[0][2], answers[1][2])

    def test_fork(self):
        """As pycaffe's train.py starts processes on Linux: the parent, which makes the uid, starts no driver
        of CUDA's."""
        path = self.solver(DUMMY)
        program = "import sys, test_nccl; test_nccl.train_forked(sys.argv[1])"
        done = subprocess.run([sys.executable, "-c", program, path], stdout=subprocess.PIPE, timeout=100,
                              check=True)
        weights = repr(float(self.weights_of_one(path, [0, 1]).sum()))
        self.assertEqual(done.stdout.decode().split(), ["[0,", "0]", weights, weights])

    def test_a_process_that_fails(self):
        answers, codes = run_all(fail, self.solver(DUMMY))
        self.assertEqual(codes, [0, 0])
        self.assertEqual(answers[1][1], "KeyError")
        self.assertEqual(answers[0][1], "Error")
        self.assertRegex(answers[0][2], r"rank 1 \(.*\): .*KeyError\('on purpose'\)")

    def test_a_process_that_is_killed(self):
        answers, codes = run_all(die, self.solver(DUMMY), answers=1)
        self.assertEqual(codes, [0, -signal.SIGKILL])
        self.assertRegex(answers[0][1], r"rank 1 \(.*\): the process has ended")

    def test_interrupt(self):
        """All stop after the same iteration, and can go on."""
        answers, codes = run_all(interrupt, self.solver(DUMMY))
        self.assertEqual(codes, [0, 0])
        self.assertEqual([answer[1] for answer in answers], ["returned", "interrupted"])
        self.assertEqual(answers[0][2:], answers[1][2:])

    def test_set_weights(self):
        """What the first process writes reaches all."""
        answers, codes = run_all(set_weights, self.solver(DUMMY))
        self.assertEqual(codes, [0, 0])
        self.assertGreater(answers[0][1].max(), 50)
        np.testing.assert_array_equal(answers[1][1], answers[0][1])
        np.testing.assert_array_equal(answers[1][2], np.full_like(answers[1][2], 7))

    def test_misuse(self):
        context = multiprocessing.get_context("spawn")
        answer = context.Queue()
        self.assertIsInstance(caffe.NCCL.new_uid(), bytes)
        process = context.Process(target=misuse, daemon=True, args=(
            self.solver(DUMMY), caffe.NCCL.new_uid(), 0, 2, answer))
        process.start()
        said = answer.get(timeout=60)
        process.join(60)
        self.assertEqual([kind for kind, _ in said],
                         ["TypeError", "TypeError", "ValueError", "Error", "Error", "RuntimeError"])
        for (_, text), part in zip(said, ["expected a solver", "bytes", "new_uid", "patience", "0.1 s",
                                          "set_solver_count"]):
            self.assertIn(part, text)

    def test_one_process(self):
        """train.py with a single GPU."""
        answers, codes = run_all(train, self.solver(DUMMY), count=1)
        self.assertEqual(codes, [0])
        np.testing.assert_array_equal(answers[0][2], self.weights_of_one(self.path("solver.prototxt"), [0]))


if __name__ == "__main__":
    unittest.main()
