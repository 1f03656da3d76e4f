/* Included in one file of a program that asks for more memory than can exist: sanitizers then fail
 * the allocation as the system does, instead of ending the process. */
#ifndef CR_TESTS_CORE_LARGE_REQUESTS_H
#define CR_TESTS_CORE_LARGE_REQUESTS_H

const char *__asan_default_options(void);
const char *__tsan_default_options(void);

const char *__asan_default_options(void) {
  return "allocator_may_return_null=1";
}

const char *__tsan_default_options(void) {
  return "allocator_may_return_null=1";
}

#endif
