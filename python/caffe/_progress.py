"""Progress bars of training."""
import sys

from . import _core


class _Bar:
    """The base class of progress bars."""

    def __init__(self, terminal):
        _core.set_bar(terminal)

    def close(self):
        """Closes the bar: log lines do not clear the last line of the terminal afterwards."""
        _core.set_bar(False)


class _Plain(_Bar):
    """A progress bar on one line that is overwritten in place."""

    def __init__(self, terminal):
        super().__init__(terminal)
        self._start = "\r\033[K" if terminal else "\r"
        self._shown = None

    def show(self, iteration, end, loss, rate, samples, seconds):
        """Updates the bar, at most ten times per second."""
        if iteration < end and self._shown is not None and seconds - self._shown < 0.1:
            return
        self._shown = seconds
        done = iteration / end if end else 1.0
        bar = "#" * int(30 * done)
        speed = samples / seconds if seconds > 0 else 0.0
        self._text = "%s[%-30s] %d/%d  loss %.4g  lr %.3g  %.0f samples/s" % (
            self._start, bar, iteration, end, loss, rate, speed)
        sys.stderr.write(self._text)
        sys.stderr.flush()

    def close(self):
        """Prints the last state of the bar, which log lines may have overwritten."""
        super().close()
        if self._shown is not None:
            sys.stderr.write(self._text + "\n")
            sys.stderr.flush()


class _Tqdm(_Bar):
    """A progress bar of tqdm, which also works in notebooks."""

    def __init__(self, terminal, tqdm, total, first):
        super().__init__(terminal)
        self._bar = tqdm(total=total, initial=first, unit="it")

    def show(self, iteration, end, loss, rate, samples, seconds):
        """Updates the bar."""
        self._bar.set_postfix(loss="%.4g" % loss, lr="%.3g" % rate, refresh=False)
        self._bar.update(iteration - self._bar.n)

    def close(self):
        """Closes the bar."""
        super().close()
        self._bar.close()


def _on_terminal():
    return sys.stderr.isatty()


def _in_notebook():
    shell = sys.modules.get("IPython")
    return shell is not None and getattr(shell, "get_ipython", lambda: None)() is not None


def bar_for(solver, wanted):
    """Creates a progress bar for a solver, or returns None. `wanted` None shows a bar on a terminal and in
    notebooks. The caller closes the bar."""
    if wanted is None:
        wanted = _on_terminal() or _in_notebook()
    if not wanted:
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _Plain(_on_terminal())
    return _Tqdm(_on_terminal(), tqdm, solver.max_iter, solver.iter)
