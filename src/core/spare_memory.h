/* Whether memory can still be had, asked before a library is called that does not survive the lack
 * of it. */
#ifndef CR_CORE_SPARE_MEMORY_H
#define CR_CORE_SPARE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the process could map `bytes` more at this moment. Nothing is kept: another thread may
 * take the memory the moment after, so callers ask for much more than they expect to be used. Costs
 * two system calls, which touch no page. */
bool cr_spare_memory(size_t bytes);

/* Whether the process has a limit of its own (`ulimit -v`, `ulimit -d`), or the system promises no
 * more memory than it has, so that allocations can fail in the middle of a run. Costs a few system
 * calls. */
bool cr_memory_is_limited(void);

/* Whether it has a limit on its address space, against which memory counts that is only reserved. */
bool cr_address_space_is_limited(void);

#endif
