"""Counts of passed, rejected and failed checks, and the table that a run ends with."""
import collections
import sys
import traceback

import caffe

from .nets import Failure, Rejected

LINES = 12  # of a failure's text


class Report:
    """Runs checks and counts how they end, by group."""

    def __init__(self, verbose=False, rejections=False):
        self.counts = collections.OrderedDict()
        self.failures = []
        self.worst = {}
        self.verbose = verbose
        self._rejections = rejections

    def count(self, group, result):
        """Adds a check of a group that ended with `result`: passed, rejected or failed."""
        self.counts.setdefault(group, collections.Counter())[result] += 1

    def fail(self, group, name, text):
        """Notes and prints a failure."""
        self.count(group, "failed")
        self.failures.append(name)
        lines = str(text).splitlines()
        more = ["  ... %d more lines" % (len(lines) - LINES)] if len(lines) > LINES else []
        print("FAIL %s: %s" % (name, "\n".join(lines[:LINES] + more)), flush=True)

    def _reject(self, group, name, error, rejected):
        if rejected is None:
            self.fail(group, name, "rejected: %s" % error)
        elif rejected not in str(error):
            self.fail(group, name, "rejected, but without the words '%s': %s" % (rejected, error))
        else:
            self.count(group, "rejected")
            if self._rejections:
                print("%s: %s" % (name, error))

    def check(self, group, name, function, rejected=""):
        """Calls `function`, which returns the largest difference. `rejected` are words of the rejection that is
        allowed; None allows none. Returns whether the check did not fail."""
        if self.verbose:
            print(name, file=sys.stderr, flush=True)
        failures = len(self.failures)
        try:
            worst = function()
            self.count(group, "passed")
            self.worst[group] = max(self.worst.get(group, 0.0), worst or 0.0)
        except Rejected as error:
            self._reject(group, name, error, rejected)
        except (Failure, caffe.Error) as error:
            self.fail(group, name, error)
        except Exception:  # a fault of a case must not end the run
            self.fail(group, name, traceback.format_exc())
        return len(self.failures) == failures

    def finish(self):
        """Prints the table. Returns the exit code."""
        width = max([len(group) for group in self.counts] + [5])
        print("%-*s  %7s %8s %7s  %s" % (width, "", "passed", "rejected", "failed", "largest difference"))
        total = collections.Counter()
        for group, counts in self.counts.items():
            total += counts
            print("%-*s  %7d %8d %7d  %.2g" % (width, group, counts["passed"], counts["rejected"], counts["failed"],
                                               self.worst.get(group, 0.0)))
        print("%-*s  %7d %8d %7d  %.2g" % (width, "total", total["passed"], total["rejected"], total["failed"],
                                           max(self.worst.values(), default=0.0)))
        if self.failures:
            print("\n%d failed:\n  %s" % (len(self.failures), "\n  ".join(self.failures)))
        return 1 if self.failures or not total else 0
