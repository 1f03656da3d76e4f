/* For loading HDF5 models: layers that are one in the file and two in the net. */
#ifndef CR_NET_HDF5_NORM_H
#define CR_NET_HDF5_NORM_H

#include "core/hdf5_reader.h"
#include "net/net.h"

/* *out: a net of the layers that the upgrade makes of such layers of the file, with their values;
 * to be freed with cr_message_free. Errors: those of the file. */
crema_status cr_net_read_hdf5_norms(const crema_net *net, cr_hdf5_reader *file,
                                    Caffe__NetParameter **out) CREMA_MUST_USE;

/* The layer of that name in such a net; NULL: there is none. */
const Caffe__LayerParameter *cr_net_find_hdf5_norm(const Caffe__NetParameter *norms,
                                                   const char *name);

#endif
