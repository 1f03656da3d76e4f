/* Whether memory is still available: to be asked before calling a library that does not survive a
 * lack of it. */
#ifndef CR_CORE_SPARE_MEMORY_H
#define CR_CORE_SPARE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "crema/status.h"

/* Whether the process could map `bytes` more at this moment. Nothing is kept: another thread may
 * take the memory the moment after, so callers ask for much more than they expect to use. Costs two
 * system calls, which touch no page. */
bool cr_spare_memory(size_t bytes);

/* Whether the process had a limit of its own (`ulimit -v`, `ulimit -d`), or the system promised no
 * more memory than it has, when this was first asked: whether allocations may fail in the middle of
 * a run. */
bool cr_memory_is_limited(void);

/* Whether the process has a limit on its address space, which also counts memory that is only
 * reserved. */
bool cr_address_space_is_limited(void);

/* To be called before `who`, a library that does not survive a lack of memory: fails with
 * CREMA_E_NO_MEMORY when the process has such a limit and could not map `bytes` more. */
crema_status cr_need_memory(size_t bytes, const char *who) CREMA_MUST_USE;

#endif
