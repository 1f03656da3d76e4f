/* Prefetching of memory. */
#ifndef CR_CORE_PREFETCH_H
#define CR_CORE_PREFETCH_H

/* Locality argument of __builtin_prefetch: brings a line from memory to the L2 cache. A prefetch
 * to L1 occupies one of the few line-fill buffers while memory answers; loads that hit L2 then
 * wait for a buffer. */
enum { CR_SECOND_CACHE = 2 };

#endif
