/* Asks for memory before a call to a library that does not survive a lack of it. */
#ifndef CR_CORE_MEM_PROBE_H
#define CR_CORE_MEM_PROBE_H

#include <stdbool.h>
#include <stddef.h>

#include "crema/status.h"

/* Whether the process could map `bytes` more. The memory is released immediately, and other threads
 * may take it. Callers therefore probe for much more than they expect to use. Two system calls, no
 * page touched. */
bool cr_mem_probe(size_t bytes);

/* Whether allocations may fail in the middle of a run: the process has a limit (`ulimit -v`,
 * `ulimit -d`), or the system does not overcommit. The first answer is kept. */
bool cr_memory_is_limited(void);

/* Whether the process has a limit on its address space, which also counts reserved memory. */
bool cr_address_space_is_limited(void);

/* Call before `who`, such a library. Errors: CREMA_E_NO_MEMORY when memory is limited and `bytes`
 * more could not be mapped. */
crema_status cr_need_memory(size_t bytes, const char *who) CREMA_MUST_USE;

#endif
