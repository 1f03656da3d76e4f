/* The device functions for values of type F32. */
#define CR_ONE_TYPE CREMA_F32
#define CR_FORM_NAME f32
#include "functions_host.c"
