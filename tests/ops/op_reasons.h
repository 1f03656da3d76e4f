/* Why rows that call oneDNN, or work in its layouts, decline ops. */
#ifndef CR_TESTS_OP_REASONS_H
#define CR_TESTS_OP_REASONS_H

#include "op_problem.h"
#include "op_run.h"

/* Ends the test when a row of the CPU declined without one of the reasons that it may have for this
 * problem, and when it ran although it had one. `held`: the formats in which the row was told that
 * the arguments are held; `text`: what it said. Whether the library has code for the processor is
 * not judged. */
void op_check_reasons(const op_problem *problem, const cr_kernel *kernel, const cr_format *held,
                      op_outcome outcome, const char *text);

#endif
