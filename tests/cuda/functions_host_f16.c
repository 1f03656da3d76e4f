/* The device functions for values of type F16. */
#define CR_ONE_TYPE CREMA_F16
#define CR_FORM_NAME f16
#include "functions_host.c"
