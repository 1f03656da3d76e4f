/* Whether memory can still be had, asked before a library is called that does not survive the lack
 * of it. */
#ifndef CR_CORE_SPARE_MEMORY_H
#define CR_CORE_SPARE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "crema/status.h"

/* Whether the process could map `bytes` more at this moment. Nothing is kept: another thread may
 * take the memory the moment after, so callers ask for much more than they expect to be used. Costs
 * two system calls, which touch no page. */
bool cr_spare_memory(size_t bytes);

/* Whether the process had a limit of its own (`ulimit -v`, `ulimit -d`), or the system promised no
 * more memory than it has, when this was first asked: whether allocations may fail in the middle of
 * a run. */
bool cr_memory_is_limited(void);

/* Whether it has a limit on its address space, against which memory counts that is only reserved.
 */
bool cr_address_space_is_limited(void);

/* Before `who`, a library that does not survive a lack of memory, is called: CREMA_E_NO_MEMORY when
 * the process has such a limit and `bytes` more could not be mapped. */
crema_status cr_need_memory(size_t bytes, const char *who) CREMA_MUST_USE;

#endif
