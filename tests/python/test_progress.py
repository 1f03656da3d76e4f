"""The bar that shows how solver.solve() goes: on a terminal, in a notebook, with and without tqdm."""
import contextlib
import io
import os
import pty
import re
import subprocess
import sys
import types
import unittest
import unittest.mock

import caffe
import case

PROGRAM = """
import sys
sys.modules['tqdm'] = sys.modules['tqdm.auto'] = None
import caffe
caffe.get_solver(sys.argv[1]).solve(%s)
"""


class Terminal(io.StringIO):
    """Text that a terminal shows."""

    def isatty(self):
        """So it says."""
        return True


class Bars(list):
    """In the place of tqdm: the bars that were made."""

    def __call__(self, **options):
        """Makes one."""
        bar = unittest.mock.Mock(n=options["initial"], options=options, ended=False)

        def update(count):
            bar.n += count

        def close():
            bar.ended = True
        bar.update, bar.close = update, close
        self.append(bar)
        return bar

    def modules(self):
        """Such a package."""
        auto = types.ModuleType("tqdm.auto")
        auto.tqdm = self
        return {"tqdm": types.ModuleType("tqdm"), "tqdm.auto": auto}


def notebook(shell):
    """IPython, whose shell is `shell`."""
    module = types.ModuleType("IPython")
    module.get_ipython = lambda: shell
    return {"IPython": module}


NO_TQDM = {"tqdm": None, "tqdm.auto": None}


class Progress(case.FolderCase):
    """A solver of 100 iterations, which has done 10."""

    def setUp(self):
        super().setUp()
        self.solver = caffe.get_solver(self.solver_file())
        self.solver.step(10)

    def solved(self, modules, output, **options):
        """Solves, with these modules; what was written."""
        with unittest.mock.patch.dict(sys.modules, modules), contextlib.redirect_stderr(output):
            self.solver.solve(**options)
        return output.getvalue()

    def test_own_bar(self):
        written = self.solved({**NO_TQDM, **notebook(None)}, Terminal())
        self.assertTrue(written.startswith("\r\033[K[###"), written)
        self.assertRegex(written, r"\[#{30}\] 100/100  loss [\d.e+-]+  lr [\d.]+  \d+ samples/s\n$")

    def test_none(self):
        """Not where output goes to a file, nor where the program does not want it."""
        self.assertEqual(self.solved({**NO_TQDM, **notebook(None)}, io.StringIO()), "")
        self.assertEqual(self.solved(NO_TQDM, Terminal(), progress=False), "")

    def test_in_a_notebook(self):
        written = self.solved({**NO_TQDM, **notebook(object())}, io.StringIO())
        self.assertIn("] 100/100  loss", written)
        self.assertNotIn("\033", written)
        bars = Bars()
        self.solver = caffe.get_solver(self.solver_file())
        self.solved({**bars.modules(), **notebook(object())}, io.StringIO())
        self.assertEqual(len(bars), 1)

    def test_tqdm(self):
        bars = Bars()
        self.assertEqual(self.solved(bars.modules(), io.StringIO(), progress=True), "")
        (bar,) = bars
        self.assertEqual((bar.options["total"], bar.options["initial"], bar.n, bar.ended), (100, 10, 100, True))
        self.assertEqual(sorted(bar.set_postfix.call_args.kwargs), ["loss", "lr", "refresh"])
        self.assertEqual(bar.set_postfix.call_count, 90)

    def test_ends_when_training_fails(self):
        bars = Bars()

        def fail():
            raise LookupError("no more")
        self.solver.add_callback(None, fail)
        with self.assertRaises(LookupError):
            self.solved(bars.modules(), io.StringIO(), progress=True)
        self.assertTrue(bars[0].ended)

    def test_a_bar_that_fails(self):
        """Its exception ends the training."""
        bars = Bars()
        with unittest.mock.patch.object(Bars, "__call__", return_value=unittest.mock.Mock(
                n=0, set_postfix=unittest.mock.Mock(side_effect=OSError("no terminal")))):
            with self.assertRaisesRegex(OSError, "no terminal"):
                self.solved(bars.modules(), io.StringIO(), progress=True)
        self.assertLess(self.solver.iter, 100)

    def on_terminal(self, arguments=""):
        """The lines that a program leaves on a terminal."""
        ours, theirs = pty.openpty()
        program = subprocess.Popen(
            [sys.executable, "-c", PROGRAM % arguments, self.solver_file()], stderr=theirs,
            env=dict(os.environ, GLOG_minloglevel="0", TERM="xterm"))
        os.close(theirs)
        written = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while part := os.read(ours, 65536):
                written += part
        os.close(ours)
        self.assertEqual(program.wait(60), 0, written.decode())
        return [re.split("\r\033\\[K|\r", line.rstrip("\r"))[-1] for line in written.decode().split("\n")]

    def test_lines_of_the_log_stand_by_themselves(self):
        lines = self.on_terminal()
        log = [line for line in lines if re.match(r"[IWE]\d{4} ", line)]
        self.assertTrue(any(re.search("Iteration 100.*, loss = ", line) for line in log))
        others = [line for line in lines if line not in log and line]
        self.assertEqual(len(others), 1, others)
        self.assertRegex(others[0], r"^\[#{30}\] 100/100")
        self.assertTrue(all(re.match(r"[IWE]\d{4} ", line) for line in self.on_terminal("progress=False") if line))


if __name__ == "__main__":
    unittest.main()
