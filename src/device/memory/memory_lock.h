/* Keeps allocation apart from collectives.
 *
 * An operation that involves several devices counts as a collective: connecting two devices or
 * joining a group of NCCL's.
 *
 * Drivers may deadlock when memory is allocated or freed while another thread launches a
 * collective. A thread that requests memory from a driver holds the lock shared. A thread that
 * launches a collective holds it exclusively. */
#ifndef CR_DEVICE_MEMORY_LOCK_H
#define CR_DEVICE_MEMORY_LOCK_H

void cr_memory_lock_shared(void);
void cr_memory_unlock_shared(void);

/* Around the launch of a collective on all devices of the process, by one thread or several. These
 * threads must not request memory in between. Waits for allocations in progress; later allocations
 * wait until cr_collective_end. */
void cr_collective_begin(void);
void cr_collective_end(void);

#endif
