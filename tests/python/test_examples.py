"""The examples in Python run."""
import glob
import os
import subprocess
import sys
import unittest

import case


class Examples(unittest.TestCase):
    """Programs in examples/python."""

    def test_all(self):
        programs = sorted(glob.glob(os.path.join(case.ROOT, "examples", "python", "*.py")))
        self.assertGreater(len(programs), 2)
        for program in programs:
            with self.subTest(program=os.path.basename(program)):
                done = subprocess.run([sys.executable, program], stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, timeout=100)
                self.assertEqual(done.returncode, 0, done.stdout.decode())
                self.assertTrue(done.stdout)


if __name__ == "__main__":
    unittest.main()
