"""The bar that shows how training goes."""
import sys

from . import _core


class _Bar:
    """What all bars do."""

    def __init__(self, terminal):
        _core.set_bar(terminal)

    def close(self):
        """Lines of the log go to where they are again."""
        _core.set_bar(False)


class _Plain(_Bar):
    """One line that is written over and over."""

    def __init__(self, terminal):
        super().__init__(terminal)
        self._start = "\r\033[K" if terminal else "\r"
        self._shown = None

    def show(self, iteration, end, loss, rate, samples, seconds):
        """Shows the state, ten times a second at most."""
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
        """Leaves the line, which the log may have taken, as it was last."""
        super().close()
        if self._shown is not None:
            sys.stderr.write(self._text + "\n")
            sys.stderr.flush()


class _Tqdm(_Bar):
    """The bar of tqdm, which draws in notebooks, too."""

    def __init__(self, terminal, tqdm, total, first):
        super().__init__(terminal)
        self._bar = tqdm(total=total, initial=first, unit="it")

    def show(self, iteration, end, loss, rate, samples, seconds):
        """Shows the state."""
        self._bar.set_postfix(loss="%.4g" % loss, lr="%.3g" % rate, refresh=False)
        self._bar.update(iteration - self._bar.n)

    def close(self):
        """Ends the bar."""
        super().close()
        self._bar.close()


def _on_terminal():
    return sys.stderr.isatty()


def _in_notebook():
    shell = sys.modules.get("IPython")
    return shell is not None and getattr(shell, "get_ipython", lambda: None)() is not None


def bar_for(solver, wanted):
    """A bar for a solver, or None. `wanted` None: on a terminal and in notebooks. To be closed."""
    if wanted is None:
        wanted = _on_terminal() or _in_notebook()
    if not wanted:
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _Plain(_on_terminal())
    return _Tqdm(_on_terminal(), tqdm, solver.max_iter, solver.iter)
