/* Asking for memory before it is needed. */
#ifndef CR_CORE_FETCH_H
#define CR_CORE_FETCH_H

/* The locality that __builtin_prefetch is given for what lies in memory: it is brought to the
 * second cache. A request to the nearest cache takes one of the few places where that keeps lines
 * under way, for as long as memory needs to answer, and loads from the second cache find none. */
enum { CR_SECOND_CACHE = 2 };

#endif
