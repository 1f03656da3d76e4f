/* How much memory the machine has left. */
#ifndef CR_CORE_MEM_AVAILABLE_H
#define CR_CORE_MEM_AVAILABLE_H

#include <stdint.h>

/* Bytes that can be taken without swapping: Linux's estimate (MemAvailable), or the rest of the
 * control group's limit if that is less. UINT64_MAX: unknown. Reads a few small files. */
uint64_t cr_mem_available(void);

/* MemAvailable in the text of /proc/meminfo, in bytes; UINT64_MAX when it is missing. */
uint64_t cr_mem_available_parse(const char *meminfo);

#endif
