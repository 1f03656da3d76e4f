from . import (AdaDeltaSolver as AdaDeltaSolver, AdaGradSolver as AdaGradSolver, AdamSolver as AdamSolver,
               Blob as Blob, NesterovSolver as NesterovSolver, Net as Net, RMSPropSolver as RMSPropSolver,
               SGDSolver as SGDSolver, Solver as Solver, get_solver as get_solver)
