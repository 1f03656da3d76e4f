/* How much memory the machine has left. */
#ifndef CR_CORE_FREE_MEMORY_H
#define CR_CORE_FREE_MEMORY_H

#include <stdint.h>

/* Bytes that can be taken without swapping: what Linux estimates (MemAvailable), or less where the
 * process's control group allows less. UINT64_MAX when neither can be found out. Reads a few small
 * files, so it is not for inner loops. */
uint64_t cr_free_memory(void);

/* What the two files say, for tests: MemAvailable in the text of /proc/meminfo, in bytes;
 * UINT64_MAX when it is not in there. */
uint64_t cr_free_memory_parse(const char *meminfo);

#endif
