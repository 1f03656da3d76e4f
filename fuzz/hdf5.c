/* HDF5 files of any bytes, as data sets and as weights. */
#include <stdlib.h>
#include <string.h>

#include "data/pipeline/hdf5_set.h"
#include "support/support.h"

static const char model[] =
    "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 3 } } }"
    "layer { name: 'fc' type: 'InnerProduct' bottom: 'data' top: 'fc'"
    " inner_product_param { num_output: 2 } }"
    "layer { name: 'a/b' type: 'Scale' bottom: 'fc' top: 'out' scale_param { bias_term: true } }";

static void read_set(cr_hdf5_reader *file, const char *name) {
  crema_shape shape = {0};
  crema_status status = cr_hdf5_set_probe(file, name, &shape);
  fuzz_require_text(status);
  if (status != CREMA_OK) return;
  int64_t count = crema_shape_count(&shape, 0, shape.axes);
  if (count > 1 << 16) return;
  float *values = malloc((size_t)(count > 0 ? count : 1) * sizeof *values);
  if (values == NULL) return;
  fuzz_require_text(cr_hdf5_set_read(file, name, &shape, CREMA_F32, values));
  free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static crema_net *net; /* built once; a fuzz target may keep state */
  if (net == NULL) {
    fuzz_require(crema_net_parse(model, strlen(model), "model", NULL, &net) == CREMA_OK);
  }
  const char *path = fuzz_file("input.h5", data, size);
  cr_hdf5_reader *file = NULL;
  fuzz_require_text(cr_hdf5_reader_open(path, &file));
  if (file != NULL) {
    read_set(file, "data");
    read_set(file, "label");
  }
  cr_hdf5_reader_close(file);
  fuzz_require_text(crema_net_load_weights(net, path));
  return 0;
}
