/* models/<model>: a trained network on real images. reference.h5 holds images (N x H x W x 3,
 * blue first) and prob (N x classes), the result for the centre crop with the mean 104, 117, 123
 * subtracted. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crema/net.h"
#include "data/augment/transformer.h"
#include "golden.h"
#include "golden_h5.h"

#define TOLERANCE 1e-4

typedef struct model_case {
  crema_net *net;
  cr_transformer *transformer;
  golden_array images, prob;
  char *why;
  size_t why_size;
} model_case;

static bool fail_status(model_case *c, const char *what) {
  snprintf(c->why, c->why_size, "%s: %s", what, crema_error_text());
  return false;
}

/* The file of the directory whose name ends in .caffemodel. */
static bool find_weights(const char *dir, char *path, size_t size) {
  bool found = false;
  DIR *d = opendir(dir);
  if (d == NULL) return false;
  for (struct dirent *e = readdir(d); e != NULL && !found; e = readdir(d)) {
    const char *dot = strrchr(e->d_name, '.');
    found = dot != NULL && strcmp(dot, ".caffemodel") == 0;
    if (found) snprintf(path, size, "%s/%s", dir, e->d_name);
  }
  closedir(d);
  return found;
}

static bool load(model_case *c, const char *dir, const char *net_file) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", dir, net_file);
  if (crema_net_load(path, NULL, &c->net) != CREMA_OK) return fail_status(c, net_file);
  if (!find_weights(dir, path, sizeof path)) {
    snprintf(c->why, c->why_size, "no .caffemodel");
    return false;
  }
  if (crema_net_load_weights(c->net, path) != CREMA_OK) return fail_status(c, "weights");
  return true;
}

static bool make_transformer(model_case *c, int side) {
  Caffe__TransformationParameter param = CAFFE__TRANSFORMATION_PARAMETER__INIT;
  float mean[3] = {104, 117, 123};
  param.has_crop_size = 1;
  param.crop_size = (uint32_t)side;
  param.n_mean_value = 3;
  param.mean_value = mean;
  crema_status status = cr_transformer_create(&param, CAFFE__PHASE__TEST, 0, NULL, &c->transformer);
  return status == CREMA_OK || fail_status(c, "transformer");
}

/* Image `index` into the net's input, of one item. */
static bool set_input(model_case *c, int index, float *out) {
  const crema_shape *shape = &c->images.shape;
  size_t size = (size_t)(shape->dim[1] * shape->dim[2] * shape->dim[3]);
  uint8_t *bytes = malloc(size);
  if (bytes == NULL) return false;
  for (size_t i = 0; i < size; ++i) bytes[i] = (uint8_t)c->images.value[(size_t)index * size + i];
  const cr_pixels pixels = {.values = bytes,
                            .type = CREMA_U8,
                            .interleaved = true,
                            .channels = (int)shape->dim[3],
                            .height = (int)shape->dim[1],
                            .width = (int)shape->dim[2]};
  crema_status status = cr_transformer_run(c->transformer, &pixels, 0, out);
  free(bytes);
  return status == CREMA_OK || fail_status(c, "transform");
}

static bool run_image(model_case *c, int index) {
  float *in = NULL;
  const float *out = NULL;
  size_t classes = (size_t)c->prob.shape.dim[1];
  crema_blob *result = crema_net_output(c->net, 0);
  if (crema_blob_mutable_cpu_data(crema_net_input(c->net, 0), &in) != CREMA_OK) {
    return fail_status(c, "input");
  }
  if (!set_input(c, index, in)) return false;
  if (crema_net_forward(c->net, NULL) != CREMA_OK) return fail_status(c, "forward");
  if (crema_blob_count(result) != (int64_t)classes ||
      crema_blob_cpu_data(result, &out) != CREMA_OK) {
    return fail_status(c, "output");
  }
  for (size_t i = 0; i < classes; ++i) {
    float wanted = c->prob.value[(size_t)index * classes + i];
    if (fabsf(out[i] - wanted) <= TOLERANCE) continue;
    snprintf(c->why, c->why_size, "image %d, class %zu: %g, expected %g", index, i, out[i], wanted);
    return false;
  }
  return true;
}

static bool run_images(model_case *c) {
  crema_blob *input = crema_net_input(c->net, 0);
  crema_shape shape = *crema_blob_shape(input);
  if (shape.axes != 4 || c->images.shape.axes != 4 || c->prob.shape.axes != 2 ||
      shape.dim[1] != c->images.shape.dim[3]) {
    snprintf(c->why, c->why_size, "the net's input does not fit the images");
    return false;
  }
  shape.dim[0] = 1;
  if (crema_blob_reshape(input, &shape) != CREMA_OK) return fail_status(c, "reshape");
  if (crema_net_reshape(c->net) != CREMA_OK) return fail_status(c, "reshape");
  if (!make_transformer(c, (int)shape.dim[2])) return false;
  for (int i = 0; i < c->images.shape.dim[0]; ++i) {
    if (!run_image(c, i)) return false;
  }
  return true;
}

int golden_run_model_case(const char *dir, char *why, size_t why_size) {
  model_case c = {.why = why, .why_size = why_size};
  hid_t file = golden_h5_open(dir, "reference.h5");
  if (file < 0) {
    snprintf(why, why_size, "reference.h5: cannot open");
    return GOLDEN_FAIL;
  }
  snprintf(why, why_size, "reference.h5: cannot read images and prob");
  bool ok = golden_h5_read(file, "/images", &c.images) && golden_h5_read(file, "/prob", &c.prob) &&
            load(&c, dir, "deploy.prototxt") && run_images(&c);
  cr_transformer_destroy(c.transformer);
  crema_net_destroy(c.net);
  golden_array_free(&c.images);
  golden_array_free(&c.prob);
  H5Fclose(file);
  return ok ? GOLDEN_PASS : GOLDEN_FAIL;
}
