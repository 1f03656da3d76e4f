"""The bar that shows how training goes."""
import sys


class _Plain:
    """One line that is written over and over."""

    def __init__(self, total):
        self._shown = 0.0
        self._total = total

    def show(self, iteration, end, loss, rate, samples, seconds):
        """Shows the state, ten times a second at most."""
        if iteration < end and seconds - self._shown < 0.1:
            return
        self._shown = seconds
        done = iteration / end if end else 1.0
        bar = "#" * int(30 * done)
        speed = samples / seconds if seconds > 0 else 0.0
        sys.stderr.write("\r[%-30s] %d/%d  loss %.4g  lr %.3g  %.0f samples/s" % (
            bar, iteration, end, loss, rate, speed))
        sys.stderr.flush()

    def close(self):
        """Ends the line."""
        sys.stderr.write("\n")


class _Tqdm:
    """The bar of tqdm, which draws in notebooks, too."""

    def __init__(self, tqdm, total, first):
        self._bar = tqdm(total=total, initial=first, unit="it")

    def show(self, iteration, end, loss, rate, samples, seconds):
        """Shows the state."""
        self._bar.set_postfix(loss="%.4g" % loss, lr="%.3g" % rate, refresh=False)
        self._bar.update(iteration - self._bar.n)

    def close(self):
        """Ends the bar."""
        self._bar.close()


def _in_notebook():
    shell = sys.modules.get("IPython")
    return shell is not None and getattr(shell, "get_ipython", lambda: None)() is not None


def bar_for(solver, wanted):
    """A bar for a solver, or None. `wanted` None: on a terminal and in notebooks."""
    if wanted is None:
        wanted = sys.stderr.isatty() or _in_notebook()
    if not wanted:
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _Plain(solver.max_iter)
    return _Tqdm(tqdm, solver.max_iter, solver.iter)
