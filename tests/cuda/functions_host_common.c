/* The device functions for the common case. */
#define CR_COMMON_ONLY
#include "functions_host.c"
