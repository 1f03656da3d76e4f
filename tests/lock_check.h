#ifndef CR_TESTS_LOCK_CHECK_H
#define CR_TESTS_LOCK_CHECK_H

/* How many locks and conditions have been made and not ended, besides static ones. */
long locks_alive(void);

/* Before and after the tests of a group: none is left. */
int locks_begin(void **state);
int locks_end(void **state);

#endif
