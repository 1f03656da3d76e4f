/* What drawn shapes and values do not show of recurrences. */
#ifndef CR_TESTS_CUDA_SEQUENCES_H
#define CR_TESTS_CUDA_SEQUENCES_H

/* Sequences that begin where cont is 0, with states before that are no numbers, without steps or
 * sequences, and without the optional arguments: the rows of the device against the reference
 * kernels of the CPU. */
void sequences_begin_and_end(void **state);

#endif
