/* The fields of a solver file: messages about their values, and common checks. */
#ifndef CR_SOLVER_FIELDS_H
#define CR_SOLVER_FIELDS_H

#include "proto/proto.h"

/* As cr_fail, for the value of `field`, which cr_field_locate can find. */
crema_status cr_field_fail(crema_status code, const char *field, const char *fmt, ...)
    CREMA_PRINTF(3, 4);

/* The last line of the text file that gives the field; 0: none, or the file cannot be read. The
 * thread's error text may change. */
size_t cr_field_line(const char *path, const char *field);

/* Prefixes a failure with the solver file's path and, if the failure names a field in the file,
 * with its line. Returns `code`. */
crema_status cr_field_locate(crema_status code, const char *path);

/* Errors: CREMA_E_RANGE for NaN and infinities, and for senseless negative numbers. */
crema_status cr_fields_check(const Caffe__SolverParameter *param) CREMA_MUST_USE;

/* Errors: CREMA_E_IO, blamed on the solver file at `path`, if the folder of the snapshots' prefix
 * does not exist. */
crema_status cr_fields_check_prefix(const char *prefix, const char *path) CREMA_MUST_USE;

#endif
