/* Keeps allocation apart from collectives.
 *
 * What involves all of several devices counts as one: connecting two devices, say, or joining a
 * group of NCCL's.
 *
 * Drivers may deadlock when memory is allocated or freed while another thread launches a
 * collective. Whoever asks a driver for memory holds the lock shared; whoever launches a collective
 * holds it exclusively. */
#ifndef CR_DEVICE_MEMORY_LOCK_H
#define CR_DEVICE_MEMORY_LOCK_H

void cr_memory_lock_shared(void);
void cr_memory_unlock_shared(void);

/* Around the launch of a collective on all devices of the process, by one thread, which others may
 * help: none of them may ask for memory meanwhile. Waits for allocations in progress; later ones
 * wait until cr_collective_end. */
void cr_collective_begin(void);
void cr_collective_end(void);

#endif
