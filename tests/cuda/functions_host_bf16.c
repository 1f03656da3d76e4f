/* The device functions for values of type BF16. */
#define CR_ONE_TYPE CREMA_BF16
#define CR_FORM_NAME bf16
#include "functions_host.c"
