/* -dump_blobs: the values of a pass as an HDF5 file. */
#ifndef CREMA_TOOLS_BLOB_DUMP_H
#define CREMA_TOOLS_BLOB_DUMP_H

#include "net/net.h"

#define CLI_DUMP_HELP "write the values of one pass to blobs.h5 in this folder"

/* Makes the net keep all blobs. To be called before the pass, if `folder` is not empty. */
crema_status cli_dump_begin(crema_net *net, const char *folder) CREMA_MUST_USE;

/* Writes <folder>/blobs.h5 and makes the folder if it is not there. The data sets are:
 *
 *   /blobs/<name>/data           values of a blob, after the pass
 *   /blobs/<name>/diff           its gradient, with `diffs`
 *   /params/<layer>/<i>/data     parameter i of a layer; also diff
 *
 * Slashes in a name make groups, as in HDF5 weights. Doubles stay doubles and bytes bytes; all
 * other types become floats. A no-op for an empty folder. Errors name the file. */
crema_status cli_dump_write(crema_net *net, const char *folder, bool diffs) CREMA_MUST_USE;

#endif
