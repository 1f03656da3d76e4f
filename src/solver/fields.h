/* The fields of a solver file: messages about their values, and checks that any value needs. */
#ifndef CR_SOLVER_FIELDS_H
#define CR_SOLVER_FIELDS_H

#include "proto/proto.h"

/* As cr_fail, for the value of `field`: cr_field_locate can then say where it is. */
crema_status cr_field_fail(crema_status code, const char *field, const char *fmt, ...)
    CREMA_PRINTF(3, 4);

/* The line of the text file on which it gives the field last; 0: nowhere, or it can no longer be
 * read. The thread's error text may change. */
size_t cr_field_line(const char *path, const char *field);

/* Puts the solver file's path, and the line of the field that is to blame if the failure names one
 * that the file gives, in front of a failure that is passed on. Returns `code`; does nothing when
 * that is CREMA_OK. */
crema_status cr_field_locate(crema_status code, const char *path);

/* Fails for numbers that are not finite and for negative ones where those mean nothing. Errors:
 * CREMA_E_RANGE. */
crema_status cr_fields_check(const Caffe__SolverParameter *param) CREMA_MUST_USE;

#endif
