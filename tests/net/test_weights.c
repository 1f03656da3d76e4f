/* Weights in messages and files: round trips, what fits and what does not. */
#include <hdf5.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/file.h"
#include "crema/log.h"
#include "folder.h"
#include "net_case.h"

#define MODEL(conv, outputs)                                                                      \
  "name: 'model' " INPUT(                                                                         \
      "data",                                                                                     \
      DIM4(1, 2, 4, 4)) "layer { name: '" conv                                                    \
                        "' type: 'Convolution' bottom: 'data' top: 'conv'"                        \
                        "  convolution_param { num_output: 3 kernel_size: 2 weight_filler { "     \
                        "type: 'xavier' } } }\n"                                                  \
                        "layer { name: 'bn' type: 'BatchNorm' bottom: 'conv' top: 'conv' }\n"     \
                        "layer { name: 'fc' type: 'InnerProduct' bottom: 'conv' top: 'fc' param " \
                        "{ name: 'w' }"                                                           \
                        "  inner_product_param { num_output: " #outputs                           \
                        " } }\n"                                                                  \
                        "layer { name: 'fc2' type: 'InnerProduct' bottom: 'conv' top: 'fc2' "     \
                        "param { name: 'w' }"                                                     \
                        "  inner_product_param { num_output: " #outputs " } }\n"

/* The model reads conv twice, so that it has a split and a shared parameter. */
#define NET MODEL("conv", 2)

#define SCALING_NORM                                           \
  "layer { name: 'bn' type: 'BatchNorm' bottom: 'x' top: 'y' " \
  "batch_norm_param { eps: 1 scale_bias: true } "

static crema_net *build_model(const char *text) {
  return build(text, CREMA_TEST);
}

/* Every parameter gets values of its own; the owner's are written after those of its sharers. */
static void number_params(crema_net *net, float first) {
  for (int i = net->params - 1; i >= 0; --i) {
    const cr_net_param *param = &net->net_param[i];
    fill(net->layer[param->layer].layer->blob[param->index], first + 100.0f * (float)i, 0.5f);
  }
}

static void number_diffs(crema_net *net) {
  for (int i = 0; i < net->learnables; ++i) {
    float *diff = NULL;
    ok(crema_blob_mutable_cpu_diff(net->learnable[i], &diff));
    for (int64_t k = 0; k < crema_blob_count(net->learnable[i]); ++k) diff[k] = (float)(i + k);
  }
}

static void assert_same_params(crema_net *a, crema_net *b) {
  assert_int_equal(a->learnables, b->learnables);
  for (int i = 0; i < a->learnables; ++i) {
    assert_memory_equal(data_of(a->learnable[i]), data_of(b->learnable[i]),
                        (size_t)crema_blob_count(a->learnable[i]) * sizeof(float));
  }
}

static void round_trip(const char *file, bool diffs) {
  crema_net *a = build_model(NET), *b = build_model(NET);
  number_params(a, 1.0f);
  number_diffs(a);
  ok(cr_net_save(a, path_of(file), diffs));
  ok(crema_net_load_weights(b, path_of(file)));
  assert_same_params(a, b);
  crema_net_destroy(a);
  crema_net_destroy(b);
}

TEST(files_give_back_what_they_took) {
  round_trip("a.caffemodel", false);
  round_trip("b.caffemodel", true);
  round_trip("c.caffemodel.h5", false);
  round_trip("d.caffemodel.h5", true);
  struct stat with, without;
  assert_int_equal(stat(path_of("a.caffemodel"), &without), 0);
  assert_int_equal(stat(path_of("b.caffemodel"), &with), 0);
  assert_true(with.st_size > without.st_size);
}

/* What the message holds: name, all layers with splits, phases, blobs, diffs. */
TEST(messages_hold_net_and_values) {
  crema_net *net = build_model(NET);
  number_params(net, 1.0f);
  number_diffs(net);
  Caffe__NetParameter *message = NULL;
  ok(cr_net_to_proto(net, true, &message));
  assert_string_equal(message->name, "model");
  assert_int_equal(message->n_layer, 6);
  assert_string_equal(message->layer[3]->name, "conv_bn_0_split");
  const Caffe__LayerParameter *fc = message->layer[4];
  assert_true(fc->has_phase && fc->phase == CAFFE__PHASE__TEST);
  assert_int_equal(fc->n_blobs, 2);
  assert_int_equal(fc->blobs[0]->shape->n_dim, 2);
  assert_int_equal(fc->blobs[0]->shape->dim[1], 27);
  assert_int_equal(fc->blobs[0]->n_data, 54);
  assert_int_equal(fc->blobs[0]->n_diff, 54);
  assert_near(fc->blobs[1]->data[1] - fc->blobs[1]->data[0], 0.5, 0.0);
  cr_net_proto_free(message);
  crema_net_destroy(net);
}

/* Data sets and groups of an HDF5 model: as other readers of the format want them. */
TEST(hdf5_files_are_laid_out_as_usual) {
  hid_t file = H5Fopen(path_of("d.caffemodel.h5"), H5F_ACC_RDONLY, H5P_DEFAULT);
  assert_true(file >= 0);
  assert_true(H5Lexists(file, "/data/conv/0", H5P_DEFAULT) > 0);
  assert_true(H5Lexists(file, "/data/in_data", H5P_DEFAULT) > 0);
  assert_true(H5Lexists(file, "/data/fc2/1", H5P_DEFAULT) > 0);
  assert_true(H5Lexists(file, "/data/fc2/0", H5P_DEFAULT) == 0); /* shared: the owner has it */
  assert_true(H5Lexists(file, "/diff/fc2/0", H5P_DEFAULT) > 0);
  hid_t set = H5Dopen2(file, "/data/conv/0", H5P_DEFAULT);
  hid_t space = H5Dget_space(set), type = H5Dget_type(set);
  hsize_t dim[4];
  assert_int_equal(H5Sget_simple_extent_ndims(space), 4);
  H5Sget_simple_extent_dims(space, dim, NULL);
  assert_true(dim[0] == 3 && dim[1] == 2 && dim[2] == 2 && dim[3] == 2);
  assert_true(H5Tequal(type, H5T_NATIVE_FLOAT) > 0);
  H5Tclose(type);
  H5Sclose(space);
  H5Dclose(set);
  H5Fclose(file);
  file = H5Fopen(path_of("c.caffemodel.h5"), H5F_ACC_RDONLY, H5P_DEFAULT);
  assert_true(H5Lexists(file, "/diff", H5P_DEFAULT) == 0);
  H5Fclose(file);
}

/* Nothing is changed when something does not fit. */
static void refuse_file(const char *text, const char *file, crema_status code,
                        const char *const *words) {
  crema_net *net = build_model(text);
  number_params(net, -5.0f);
  crema_status status = crema_net_load_weights(net, path_of(file));
  if (status != code) print_error("%s: %s\n", crema_status_name(status), crema_error_text());
  assert_int_equal(status, code);
  assert_names(words);
  crema_net *same = build_model(text);
  number_params(same, -5.0f);
  assert_same_params(net, same);
  crema_net_destroy(same);
  crema_net_destroy(net);
}

TEST(other_shapes_are_refused) {
  const char *const words[] = {"'fc' (InnerProduct)", "2 27 (54)", "4 27 (108)", "parameter 0",
                               NULL};
  refuse_file(MODEL("conv", 4), "a.caffemodel", CREMA_E_SHAPE, words);
  refuse_file(MODEL("conv", 4), "c.caffemodel.h5", CREMA_E_SHAPE,
              WORDS("layer 'fc'", "2 27 (54)", "4 27 (108)", "parameter 0"));
}

/* For programs that mark the layer, or rename it. */
TEST(weights_that_do_not_fit_are_blamed_on_layer_and_file) {
  static const char *const file[] = {"a.caffemodel", "c.caffemodel.h5"};
  crema_net *net = build_model(MODEL("conv", 4));
  for (int i = 0; i < 2; ++i) {
    assert_int_equal(crema_net_load_weights(net, path_of(file[i])), CREMA_E_SHAPE);
    assert_string_equal(crema_error_layer(), "fc");
    assert_string_equal(crema_error_file(), path_of(file[i]));
  }
  crema_net_destroy(net);
}

TEST(other_numbers_of_blobs_are_refused) {
#define BIASED(bias)                                                 \
  INPUT("data", DIM2(1, 2))                                          \
  "layer { name: 'fc' type: 'InnerProduct' bottom: 'data' top: 'fc'" \
  "  inner_product_param { num_output: 1 bias_term: " bias " } }\n"
  static const char *const file[] = {"n.caffemodel", "n.caffemodel.h5"};
  crema_net *one = build(BIASED("false"), CREMA_TEST), *two = build(BIASED("true"), CREMA_TEST);
  for (int i = 0; i < 2; ++i) {
    ok(crema_net_save_weights(one, path_of(file[i])));
    assert_int_equal(crema_net_load_weights(two, path_of(file[i])), CREMA_E_ARGUMENT);
    assert_names(WORDS("number of blobs", "'fc' (InnerProduct)", file[i]));
    ok(crema_net_save_weights(two, path_of(file[i])));
    assert_int_equal(crema_net_load_weights(one, path_of(file[i])), CREMA_E_ARGUMENT);
    assert_names(WORDS("number of blobs", "'fc' (InnerProduct)"));
  }
  crema_net_destroy(one);
  crema_net_destroy(two);
}

static void write_file(const char *name, const void *bytes, size_t size) {
  ok(cr_file_write(path_of(name), bytes, size));
}

TEST(damaged_and_foreign_files_are_refused) {
  static const char *const file[] = {"a.caffemodel", "c.caffemodel.h5"};
  for (int i = 0; i < 2; ++i) {
    cr_buffer bytes = {0};
    ok(cr_file_read(path_of(file[i]), &bytes));
    const char *name = i == 0 ? "cut.caffemodel" : "cut.h5";
    for (size_t part = 1; part < 8; ++part) {
      write_file(name, bytes.data, bytes.size * part / 8);
      refuse_file(NET, name, CREMA_E_CORRUPT, WORDS(name));
    }
    cr_buffer_free(&bytes);
  }
  write_file("foreign.caffemodel", "\x89PNG\r\n\x1a\n and so on", 18);
  refuse_file(NET, "foreign.caffemodel", CREMA_E_CORRUPT, WORDS("foreign.caffemodel"));
  write_file("foreign.h5", "not HDF5 at all", 15);
  refuse_file(NET, "foreign.h5", CREMA_E_CORRUPT, WORDS("foreign.h5"));
  write_file("empty.caffemodel", "", 0);
  refuse_file(NET, "empty.caffemodel", CREMA_E_CORRUPT, WORDS("empty.caffemodel"));
  refuse_file(NET, "absent.caffemodel", CREMA_E_NOT_FOUND, WORDS("absent.caffemodel"));
  refuse_file(NET, "absent.h5", CREMA_E_NOT_FOUND, WORDS("absent.h5"));
  hid_t h5 = H5Fcreate(path_of("other.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(h5);
  refuse_file(NET, "other.h5", CREMA_E_CORRUPT, WORDS("other.h5", "/data"));
}

/* ---- names that are paths ---- */

/* A layer with one parameter; a layer of parameters 0 and 1. */
#define SCALED(name) "layer { name: '" name "' type: 'Scale' bottom: 'x' top: '" name "' }\n"
#define SHIFTED(name)                                              \
  "layer { name: '" name "' type: 'Scale' bottom: 'x' top: '" name \
  "' scale_param { bias_term: true } }\n"
#define SILENT(name) "layer { name: '" name "' type: 'ReLU' bottom: 'x' top: '" name "' }\n"
#define OF_ONE(layers) INPUT("x", DIM2(1, 1)) layers

/* In an HDF5 file the group of layer "fc/2" lies beside the parameters 0 and 1 of layer "fc". */
TEST(layers_may_lie_inside_of_others) {
  static const char *const text[] = {OF_ONE(SHIFTED("fc") SILENT("fc/2")),
                                     OF_ONE(SILENT("fc/2") SHIFTED("fc")),
                                     OF_ONE(SHIFTED("fc") SHIFTED("fc/2")),
                                     OF_ONE(SCALED("fc/x/0") SCALED("fc/1/y") SCALED("fc"))};
  for (size_t i = 0; i < sizeof text / sizeof *text; ++i) {
    crema_net *a = build_model(text[i]), *b = build_model(text[i]);
    number_params(a, 1.0f);
    ok(cr_net_check_hdf5(a, true));
    ok(crema_net_save_weights(a, path_of("inside.h5")));
    ok(crema_net_load_weights(b, path_of("inside.h5")));
    assert_same_params(a, b);
    crema_net_destroy(a);
    crema_net_destroy(b);
  }
}

/* The group that leads to a layer is none of its own: that layer has no weights in the file. */
TEST(a_group_on_the_way_is_no_layer) {
  crema_net *net = build_model(OF_ONE(SCALED("fc/a")));
  ok(crema_net_save_weights(net, path_of("way.h5")));
  crema_net_destroy(net);
  refuse_file(OF_ONE(SCALED("fc/a") SCALED("fc")), "way.h5", CREMA_E_NOT_FOUND,
              WORDS("way.h5", "1 of the net's 2 layers", "'fc' (Scale)"));
}

static void refuse_hdf5(const char *text, crema_status code, const char *const *words) {
  crema_net *net = build_model(text);
  assert_int_equal(cr_net_check_hdf5(net, false), code);
  assert_names(words);
  assert_int_equal(crema_net_save_weights(net, path_of("refused.h5")), code);
  assert_names(words);
  assert_int_not_equal(access(path_of("refused.h5"), F_OK), 0);
  crema_net_destroy(net);
}

/* Said before training begins, with both names. */
TEST(names_that_hdf5_cannot_hold_are_refused) {
  refuse_hdf5(OF_ONE(SCALED("fc") SCALED("fc/0")), CREMA_E_EXISTS,
              WORDS("layer 'fc/0' (Scale)", "parameter 0 of layer 'fc' (Scale)"));
  refuse_hdf5(OF_ONE(SCALED("fc") SILENT("fc/0")), CREMA_E_EXISTS,
              WORDS("layer 'fc/0' (ReLU)", "parameter 0 of layer 'fc' (Scale)"));
  refuse_hdf5(OF_ONE(SHIFTED("fc/0") SHIFTED("fc")), CREMA_E_EXISTS,
              WORDS("layer 'fc/0' (Scale)", "parameter 0 of layer 'fc' (Scale)"));
  refuse_hdf5(OF_ONE(SCALED(".")), CREMA_E_ARGUMENT, WORDS("layer '.' (Scale)", "no part"));
  refuse_hdf5(OF_ONE(SCALED("a/")), CREMA_E_ARGUMENT, WORDS("layer 'a/' (Scale)", "no part"));
  refuse_hdf5(OF_ONE(SCALED("a//b")), CREMA_E_ARGUMENT, WORDS("layer 'a//b' (Scale)"));
  refuse_hdf5(OF_ONE(SCALED("./a")), CREMA_E_ARGUMENT, WORDS("layer './a' (Scale)"));
  crema_net *net = build_model(OF_ONE(SILENT("a/") SILENT(".") SCALED("a/.b")));
  ok(crema_net_save_weights(net, path_of("silent.h5")));
  crema_net_destroy(net);
}

/* ---- packed values ---- */

static void write_set(hid_t file, const char *path, bool packed, const float *values) {
  const hsize_t dim[1] = {64};
  hid_t links = H5Pcreate(H5P_LINK_CREATE), how = H5Pcreate(H5P_DATASET_CREATE);
  hid_t space = H5Screate_simple(1, dim, NULL);
  H5Pset_create_intermediate_group(links, 1);
  if (packed) {
    H5Pset_chunk(how, 1, dim);
    H5Pset_fletcher32(how);
  }
  hid_t set = H5Dcreate2(file, path, H5T_NATIVE_FLOAT, space, links, how, H5P_DEFAULT);
  assert_true(H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
  H5Dclose(set);
  H5Sclose(space);
  H5Pclose(how);
  H5Pclose(links);
}

/* Damage that shows only when values are unpacked is found before any layer is given values. */
TEST(packed_values_are_unpacked_before_any_is_taken) {
#define WIDE                                                   \
  INPUT("x", DIM2(1, 64))                                      \
  "layer { name: 'one' type: 'Scale' bottom: 'x' top: 'a' }\n" \
  "layer { name: 'two' type: 'Scale' bottom: 'a' top: 'b' }\n"
  float values[64];
  cr_buffer bytes = {0};
  for (int i = 0; i < 64; ++i) values[i] = 3.25f + (float)i;
  hid_t file = H5Fcreate(path_of("packed.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  write_set(file, "/data/one/0", false, values);
  write_set(file, "/data/two/0", true, values);
  H5Fclose(file);
  crema_net *net = build_model(WIDE);
  ok(crema_net_load_weights(net, path_of("packed.h5")));
  assert_near(data_of(param_of(net, "two", 0))[63], 66.25, 0.0);
  crema_net_destroy(net);
  /* The last value in the file is one of the second set. */
  ok(cr_file_read(path_of("packed.h5"), &bytes));
  size_t at = bytes.size - sizeof(float);
  while (at > 0 && memcmp(bytes.data + at, &values[63], sizeof(float)) != 0) --at;
  assert_true(at > 0);
  bytes.data[at] ^= 1;
  write_file("packed.h5", bytes.data, bytes.size);
  cr_buffer_free(&bytes);
  refuse_file(WIDE, "packed.h5", CREMA_E_CORRUPT, WORDS("packed.h5", "/data/two/0"));
}

/* As in Caffe the last layer of a name counts, which two models have, one behind the other. */
TEST(of_two_models_in_a_file_the_last_one_counts) {
  cr_buffer bytes = {0};
  for (int i = 0; i < 2; ++i) {
    crema_net *net = build_model(NET);
    number_params(net, i == 0 ? 1.0f : 7.0f);
    ok(crema_net_save_weights(net, path_of("half.caffemodel")));
    ok(cr_file_read(path_of("half.caffemodel"), &bytes));
    crema_net_destroy(net);
  }
  write_file("both.caffemodel", bytes.data, bytes.size);
  cr_buffer_free(&bytes);
  crema_net *net = build_model(NET), *last = build_model(NET);
  number_params(last, 7.0f);
  ok(crema_net_load_weights(net, path_of("both.caffemodel")));
  assert_same_params(net, last);
  crema_net_destroy(net);
  crema_net_destroy(last);
}

/* ---- norms that scale by themselves ---- */

/* /data/bn/0, 1 ..., each with `counts` values that are one more than its number. */
static void write_norm(const char *name, const hsize_t *counts, int sets) {
  hid_t file = H5Fcreate(path_of(name), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  H5Gclose(H5Gcreate2(file, "/data", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  H5Gclose(H5Gcreate2(file, "/data/bn", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  for (int i = 0; i < sets; ++i) {
    const float n = (float)(i + 1), values[4] = {n, n, n, n};
    char path[32];
    snprintf(path, sizeof path, "/data/bn/%d", i);
    hid_t space = H5Screate_simple(1, &counts[i], NULL);
    hid_t set =
        H5Dcreate2(file, path, H5T_NATIVE_FLOAT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Dclose(set);
    H5Sclose(space);
  }
  H5Fclose(file);
}

#define NORM(type, body) \
  INPUT("x", DIM4(1, 3, 1, 1)) "layer { name: 'bn' type: '" type "' bottom: 'x' top: 'x' " body " }"

/* Their files have one layer where the net has two. */
TEST(hdf5_models_of_norms_that_scale) {
  static const hsize_t five[] = {3, 3, 1, 3, 3}, four[] = {3, 3, 3, 3}, other[] = {2, 2, 1, 2, 2};
  write_norm("norm.h5", five, 5);
  crema_net *net = build(NORM("BatchNorm", "batch_norm_param { scale_bias: true }"), CREMA_TEST);
  ok(crema_net_load_weights(net, path_of("norm.h5")));
  assert_true(data_of(param_of(net, "bn", 0))[2] == 1.0f);
  assert_true(data_of(param_of(net, "bn", 1))[2] == 2.0f);
  assert_true(data_of(param_of(net, "bn/scale_bias", 0))[2] == 4.0f);
  assert_true(data_of(param_of(net, "bn/scale_bias", 1))[2] == 5.0f);
  write_norm("norm.h5", other, 5);
  assert_fails(crema_net_load_weights(net, path_of("norm.h5")), CREMA_E_SHAPE,
               "layer 'bn' (BatchNorm): the file's shape is 2 (2), the net's is 3 (3)");
  crema_net_destroy(net);
  write_norm("norm.h5", four, 4);
  net = build(NORM("BN", "bn_param { momentum: 0.5 }"), CREMA_TEST);
  ok(crema_net_load_weights(net, path_of("norm.h5")));
  assert_true(data_of(param_of(net, "bn", 0))[2] == 2 * 3.0f);
  assert_true(data_of(param_of(net, "bn", 2))[0] == 2.0f);
  assert_true(data_of(param_of(net, "bn/scale_bias", 0))[2] == 1.0f);
  assert_true(data_of(param_of(net, "bn/scale_bias", 1))[2] == 2.0f);
  crema_net_destroy(net);
  write_norm("norm.h5", five, 4);
  net = build(NORM("BatchNorm", "batch_norm_param { use_weight_bias: true bias_term: false }"),
              CREMA_TEST);
  ok(crema_net_load_weights(net, path_of("norm.h5")));
  assert_true(data_of(param_of(net, "bn", 0))[2] == 1.0f);
  assert_true(data_of(param_of(net, "bn/scale_bias", 0))[2] == 4.0f);
  crema_net_destroy(net);
}

/* ---- files that lack some of the net's weights ---- */

static const char *const both_kinds[] = {"a.caffemodel", "c.caffemodel.h5"};

/* The same net with another name of the convolution has weights for all but it. */
TEST(missing_layers_are_refused_in_tests) {
  for (int i = 0; i < 2; ++i) {
    refuse_file(MODEL("conv_b", 2), both_kinds[i], CREMA_E_NOT_FOUND,
                WORDS(both_kinds[i], "1 of the net's 4 layers", "'conv_b' (Convolution)",
                      "the file has a layer 'conv'", "allow_missing"));
    refuse_file(MODEL("something", 2), both_kinds[i], CREMA_E_NOT_FOUND,
                WORDS("'something' (Convolution); layers are matched"));
  }
}

static char log_text[4096];

static void keep_log(void *user, crema_log_level level, const char *file, int line,
                     const char *message) {
  size_t used = strlen(log_text);
  (void)user;
  (void)file;
  (void)line;
  snprintf(log_text + used, sizeof log_text - used, "%d %s\n", (int)level, message);
}

static void start_log(void) {
  log_text[0] = '\0';
  crema_log_set(keep_log, NULL, CREMA_LOG_INFO);
}

static void assert_logged(const char *line) {
  if (strstr(log_text, line) == NULL) print_error("no '%s' in:\n%s", line, log_text);
  assert_non_null(strstr(log_text, line));
}

#define WARNED                                                                                   \
  "2 layer 'conv_b' (Convolution) gets no weights and keeps its initial values; the file has a " \
  "layer 'conv', which the net lacks\n"

/* `how` loads the weights; the renamed layer keeps its values, and a warning names it. */
static void skip_missing(crema_phase phase, const crema_weights_options *how) {
  crema_net *full = build_model(NET);
  number_params(full, 1.0f);
  for (int i = 0; i < 2; ++i) {
    crema_net *net = build(MODEL("conv_b", 2), phase);
    number_params(net, -5.0f);
    start_log();
    ok(how == NULL ? crema_net_load_weights(net, path_of(both_kinds[i]))
                   : crema_net_load_weights_with(net, path_of(both_kinds[i]), how));
    crema_log_set(NULL, NULL, CREMA_LOG_INFO);
    assert_logged(WARNED);
    assert_logged("1 1 layer of ");
    assert_logged(" is not in the net: conv\n");
    assert_null(strstr(log_text, "'fc2'"));
    assert_near(data_of(param_of(net, "conv_b", 0))[0], -5.0, 0.0);
    assert_near(data_of(param_of(net, "fc", 1))[0], data_of(param_of(full, "fc", 1))[0], 0.0);
    crema_net_destroy(net);
  }
  crema_net_destroy(full);
}

TEST(missing_layers_are_warned_of_where_allowed) {
  crema_weights_options options;
  memset(&options, 1, sizeof options);
  crema_weights_options_init(&options);
  assert_false(options.allow_missing);
  crema_net *net = build(MODEL("conv_b", 2), CREMA_TRAIN);
  assert_int_equal(crema_net_load_weights_with(net, path_of("a.caffemodel"), &options),
                   CREMA_E_NOT_FOUND);
  assert_int_equal(crema_net_load_weights_with(net, path_of("a.caffemodel"), NULL),
                   CREMA_E_NOT_FOUND);
  crema_net_destroy(net);
  options.allow_missing = true;
  skip_missing(CREMA_TEST, &options);
  skip_missing(CREMA_TRAIN, NULL);
}

/* Nothing in a file shows that it was cut between two layers. */
TEST(every_cut_between_layers_is_refused) {
  Caffe__NetParameter *weights = NULL;
  ok(cr_net_param_read_binary(path_of("a.caffemodel"), &weights));
  const size_t layers = weights->n_layer;
  int refused = 0;
  for (size_t kept = 0; kept < layers; ++kept) {
    crema_net *net = build_model(NET);
    cr_buffer bytes = {0};
    weights->n_layer = kept;
    ok(cr_wire_print(&weights->base, &bytes));
    write_file("cut.caffemodel", bytes.data, bytes.size);
    crema_status status = crema_net_load_weights(net, path_of("cut.caffemodel"));
    assert_true(status == CREMA_E_NOT_FOUND || (kept == 0 && status == CREMA_E_CORRUPT));
    assert_names(WORDS("cut.caffemodel"));
    /* The last layer, fc2, is the last that the message names. */
    if (kept == layers - 1) {
      assert_names(WORDS("1 of the net's 4 layers", "'fc2' (InnerProduct)"));
    }
    ++refused;
    cr_buffer_free(&bytes);
    crema_net_destroy(net);
  }
  assert_int_equal(refused, 6);
  weights->n_layer = layers;
  cr_message_free(&weights->base);
}

#define SHARED(first, second)                                       \
  INPUT("x", DIM2(1, 2))                                            \
  "layer { name: '" first                                           \
  "' type: 'InnerProduct' bottom: 'x' top: 'a' param { name: 'w' }" \
  "  inner_product_param { num_output: 2 bias_term: false } }\n"    \
  "layer { name: '" second                                          \
  "' type: 'InnerProduct' bottom: 'a' top: 'b' param { name: 'w' }" \
  "  inner_product_param { num_output: 2 bias_term: false } }\n"

/* When one of the layers that share a parameter is in the file, all of them have it. */
TEST(shared_parameters_are_given_to_all) {
  static const char *const file[] = {"shared.caffemodel", "shared.caffemodel.h5"};
  for (int i = 0; i < 2; ++i) {
    crema_net *net = build_model(SHARED("one", "two"));
    number_params(net, 1.0f);
    ok(crema_net_save_weights(net, path_of(file[i])));
    crema_net_destroy(net);
    net = build_model(SHARED("one", "other"));
    number_params(net, -5.0f);
    ok(crema_net_load_weights(net, path_of(file[i])));
    assert_near(data_of(param_of(net, "other", 0))[0], 1.0, 0.0);
    crema_net_destroy(net);
  }
  /* The binary format has the values of every sharer; HDF5 those of the owner alone. */
  crema_net *net = build_model(SHARED("other", "two"));
  number_params(net, -5.0f);
  ok(crema_net_load_weights(net, path_of(file[0])));
  assert_near(data_of(param_of(net, "other", 0))[0], 1.0, 0.0);
  crema_net_destroy(net);
  refuse_file(SHARED("other", "two"), file[1], CREMA_E_NOT_FOUND, WORDS("parameters for no layer"));
}

/* Constant fillers are no weights; values in the net's own text are. */
TEST(fillers_are_no_weights_and_values_in_the_text_are) {
#define CONSTANTS(name, more)                                                       \
  INPUT("x", DIM2(1, 1))                                                            \
  "layer { name: 'scale' type: 'Scale' bottom: 'x' top: 'a' scale_param { filler {" \
  "  type: 'constant' value: 2 } } }\n"                                             \
  "layer { name: '" name "' type: 'Bias' bottom: 'a' top: 'b' " more " }\n"
  crema_net *net = build_model(CONSTANTS("bias", ""));
  ok(crema_net_save_weights(net, path_of("constants.caffemodel")));
  crema_net_destroy(net);
  refuse_file(CONSTANTS("added", ""), "constants.caffemodel", CREMA_E_NOT_FOUND,
              WORDS("'added' (Bias)"));
  net = build_model(CONSTANTS("added", "blobs { shape { dim: 1 } data: 7 }"));
  ok(crema_net_load_weights(net, path_of("constants.caffemodel")));
  assert_near(data_of(param_of(net, "added", 0))[0], 7.0, 0.0);
  crema_net_destroy(net);
}

/* The message stays readable however many layers there are, and counts them all. */
TEST(many_missing_layers_are_counted) {
  cr_buffer text[2] = {{0}, {0}};
  for (int k = 0; k < 2; ++k) {
    ok(cr_buffer_print(&text[k], INPUT("x0", DIM2(1, 1))));
    for (int i = 0; i < 40; ++i) {
      ok(cr_buffer_print(&text[k],
                         "layer { name: '%s%d' type: 'Scale' bottom: 'x%d' top: 'x%d' }\n",
                         k == 1 && i > 0 ? "unheard_of_" : "s", i, i, i + 1));
    }
  }
  crema_net *net = build_model(text[0].data);
  ok(crema_net_save_weights(net, path_of("many.caffemodel")));
  crema_net_destroy(net);
  refuse_file(text[1].data, "many.caffemodel", CREMA_E_NOT_FOUND,
              WORDS("39 of the net's 40 layers",
                    "'unheard_of_1' (Scale), 'unheard_of_2' (Scale), 'unheard_of_3' (Scale), "
                    "'unheard_of_4' (Scale) and 35 more"));
  assert_null(strstr(crema_error_text(), "unheard_of_5"));
  net = build(text[1].data, CREMA_TRAIN);
  start_log();
  ok(crema_net_load_weights(net, path_of("many.caffemodel")));
  crema_log_set(NULL, NULL, CREMA_LOG_INFO);
  assert_logged("2 layer 'unheard_of_32' (Scale) gets no weights and keeps its initial values\n");
  assert_null(strstr(log_text, "'unheard_of_33'"));
  assert_logged("2 7 more layers get no weights\n");
  crema_net_destroy(net);
  cr_buffer_free(&text[0]);
  cr_buffer_free(&text[1]);
}

/* Several files fill a net together; the last one's failure says what none of them has. */
TEST(files_fill_a_net_together) {
#define PAIR(first, second)                  \
  INPUT("x", DIM2(1, 1))                     \
  "layer { name: '" first                    \
  "' type: 'Scale' bottom: 'x' top: 'a' }\n" \
  "layer { name: '" second "' type: 'Scale' bottom: 'a' top: 'b' }\n"
  char path[2][256];
  for (int i = 0; i < 2; ++i) {
    crema_net *part = build_model(i == 0 ? PAIR("one", "x") : PAIR("two", "y"));
    number_params(part, 3.0f + (float)i);
    snprintf(path[i], sizeof path[i], "%s/part%d.caffemodel", folder, i);
    ok(crema_net_save_weights(part, path[i]));
    crema_net_destroy(part);
  }
  const char *const list[] = {path[0], path[1]};
  crema_net *net = build_model(PAIR("one", "two"));
  ok(cr_net_load_files(net, list, 2, CR_MISSING_REFUSED, NULL));
  assert_near(data_of(param_of(net, "one", 0))[0], 3.0, 0.0);
  assert_near(data_of(param_of(net, "two", 0))[0], 4.0, 0.0);
  assert_int_equal(cr_net_load_files(net, list, 1, CR_MISSING_REFUSED, NULL), CREMA_E_NOT_FOUND);
  assert_names(WORDS("part0.caffemodel: holds", "'two' (Scale)"));
  crema_net_destroy(net);
  net = build_model(INPUT(
      "x", DIM2(1, 1)) "layer { name: 'one' type: 'Scale' bottom: 'x' top: 'a' }\n"
                       "layer { name: 'two' type: 'Scale' bottom: 'a' top: 'b' }\n"
                       "layer { name: 'three' type: 'Scale' bottom: 'b' top: 'c' }\n");
  assert_int_equal(cr_net_load_files(net, list, 2, CR_MISSING_REFUSED, NULL), CREMA_E_NOT_FOUND);
  assert_names(WORDS("part1.caffemodel: this file and those before it hold", "1 of the net's 3",
                     "'three' (Scale)"));
  crema_net_destroy(net);
}

/* An HDF5 file is known by its content, too. */
TEST(hdf5_is_recognised_without_its_name) {
  cr_buffer bytes = {0};
  ok(cr_file_read(path_of("c.caffemodel.h5"), &bytes));
  write_file("nameless", bytes.data, bytes.size);
  cr_buffer_free(&bytes);
  crema_net *net = build_model(NET);
  ok(crema_net_load_weights(net, path_of("nameless")));
  crema_net_destroy(net);
}

TEST(saving_fails_cleanly) {
  crema_net *net = build_model(NET);
  static const char *const path[] = {"/nowhere/at/all.caffemodel", "/nowhere/at/all.h5"};
  for (int i = 0; i < 2; ++i) {
    assert_int_not_equal(crema_net_save_weights(net, path[i]), CREMA_OK);
    assert_names(WORDS(path[i]));
  }
  /* A failure leaves the old file: two layers of one name cannot go into HDF5. */
  crema_net *twins = build(
      INPUT("data", DIM2(1, 2))
      "layer { name: 'fc' type: 'InnerProduct' bottom: 'data' top: 'a'"
      "  inner_product_param { num_output: 1 } }\n"
      "layer { name: 'fc' type: 'InnerProduct' bottom: 'a' top: 'b'"
      "  inner_product_param { num_output: 1 } }\n",
      CREMA_TEST);
  assert_int_equal(crema_net_save_weights(twins, path_of("c.caffemodel.h5")), CREMA_E_EXISTS);
  assert_names(WORDS("'fc'", "c.caffemodel.h5"));
  ok(crema_net_load_weights(net, path_of("c.caffemodel.h5")));
  /* In the wire format they find their own values again. */
  number_params(twins, 1.0f);
  ok(crema_net_save_weights(twins, path_of("twins.caffemodel")));
  number_params(twins, -5.0f);
  ok(crema_net_load_weights(twins, path_of("twins.caffemodel")));
  assert_near(data_of(twins->learnable[2])[0], 201.0, 0.0);
  assert_near(data_of(twins->learnable[0])[0], 1.0, 0.0);
  crema_net_destroy(twins);
  crema_net_destroy(net);
}

/* A disk that is full after 4 KiB, as far as this process can tell. */
TEST(a_full_disk_leaves_the_old_file) {
  static const char *const file[] = {"full.caffemodel", "full.h5"};
  const char *text = INPUT("data", DIM2(1, 4000))
      "layer { name: 'fc' type: 'InnerProduct' bottom: 'data' top: 'a'"
      "  inner_product_param { num_output: 10 } }\n";
  crema_net *net = build(text, CREMA_TEST);
  for (int i = 0; i < 2; ++i) {
    number_params(net, 1.0f);
    ok(crema_net_save_weights(net, path_of(file[i])));
    number_params(net, 2.0f);
    struct rlimit before, tight;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    tight = before;
    tight.rlim_cur = 4096;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    crema_status status = crema_net_save_weights(net, path_of(file[i]));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, CREMA_E_IO);
    assert_names(WORDS(file[i]));
    ok(crema_net_load_weights(net, path_of(file[i])));
    assert_near(data_of(param_of(net, "fc", 0))[0], 1.0, 0.0);
  }
  crema_net_destroy(net);
}

/* GoogLeNet's layers have slashes in their names. */
TEST(names_with_slashes_work_in_hdf5) {
  const char *text = INPUT("data", DIM2(1, 2))
      "layer { name: 'inception/1x1' type: 'InnerProduct' bottom: 'data' top: 'a'"
      "  inner_product_param { num_output: 1 } }\n"
      "layer { name: 'inception/3x3' type: 'InnerProduct' bottom: 'a' top: 'b'"
      "  inner_product_param { num_output: 1 } }\n";
  crema_net *a = build(text, CREMA_TEST), *b = build(text, CREMA_TEST);
  number_params(a, 1.0f);
  ok(crema_net_save_weights(a, path_of("slash.h5")));
  ok(crema_net_load_weights(b, path_of("slash.h5")));
  assert_same_params(a, b);
  refuse_file(INPUT("data", DIM2(1, 2))
              "layer { name: 'inception/1x1' type: 'InnerProduct' bottom: 'data' top: 'a'"
              "  inner_product_param { num_output: 1 } }\n"
              "layer { name: 'inception/3x4' type: 'InnerProduct' bottom: 'a' top: 'b'"
              "  inner_product_param { num_output: 1 } }\n",
              "slash.h5", CREMA_E_NOT_FOUND,
              WORDS("'inception/3x4' (InnerProduct) (the file has a layer 'inception/3x3'"));
  crema_net_destroy(a);
  crema_net_destroy(b);
}

/* ---- single blobs ---- */

TEST(legacy_shapes_fit_from_the_right) {
  Caffe__BlobProto proto = CAFFE__BLOB_PROTO__INIT;
  crema_shape two = cr_shape_2(3, 5), four = cr_shape_4(1, 1, 3, 5), shape;
  crema_shape swapped = cr_shape_2(5, 3), five = {.axes = 5, .dim = {1, 1, 1, 3, 5}};
  proto.has_num = proto.has_channels = proto.has_height = proto.has_width = 1;
  proto.num = proto.channels = 1;
  proto.height = 3;
  proto.width = 5;
  ok(cr_blob_proto_shape(&proto, &shape));
  assert_true(crema_shape_equal(&shape, &four));
  assert_true(cr_blob_proto_fits(&proto, &two));
  assert_true(cr_blob_proto_fits(&proto, &four));
  assert_false(cr_blob_proto_fits(&proto, &swapped));
  assert_false(cr_blob_proto_fits(&proto, &five));
  proto.num = -1;
  assert_int_equal(cr_blob_proto_shape(&proto, &shape), CREMA_E_SHAPE);
}

/* A message without values, of one axis. */
static Caffe__BlobProto row_proto(int64_t *dim, Caffe__BlobShape *shape) {
  Caffe__BlobProto proto = CAFFE__BLOB_PROTO__INIT;
  caffe__blob_shape__init(shape);
  shape->n_dim = 1;
  shape->dim = dim;
  proto.shape = shape;
  return proto;
}

TEST(values_come_in_many_types) {
  crema_shape shape = cr_shape_1(2);
  crema_blob *blob = NULL;
  int64_t dim[] = {2};
  double f64[] = {1.5, -2.5};
  uint8_t raw[] = {0x00, 0x3e, 0x00, 0xc1, 0, 0, 0, 0}; /* 1.5 and -2.5 as binary16 */
  Caffe__BlobShape proto_shape;
  Caffe__BlobProto proto = row_proto(dim, &proto_shape);
  proto.n_double_data = 2;
  proto.double_data = f64;
  ok(crema_blob_create(&shape, &blob));
  ok(cr_blob_from_proto(blob, &proto, false));
  assert_near(data_of(blob)[1], -2.5, 0.0);
  proto.n_double_data = 0;
  fill(blob, 0.0f, 0.0f);
  proto.has_raw_data = proto.has_raw_data_type = 1;
  proto.raw_data = (ProtobufCBinaryData){4, raw};
  proto.raw_data_type = CAFFE__TYPE__FLOAT16;
  ok(cr_blob_from_proto(blob, &proto, false));
  assert_near(data_of(blob)[0], 1.5, 0.0);
  assert_near(data_of(blob)[1], -2.5, 0.0);
  int32_t whole[] = {-7, 9};
  proto.raw_data = (ProtobufCBinaryData){8, (uint8_t *)whole};
  proto.raw_data_type = CAFFE__TYPE__INT;
  ok(cr_blob_from_proto(blob, &proto, false));
  assert_near(data_of(blob)[0], -7.0, 0.0);
  proto.raw_data.len = 7;
  assert_int_equal(cr_blob_from_proto(blob, &proto, false), CREMA_E_CORRUPT);
  proto.raw_data.len = 4;
  assert_int_equal(cr_blob_from_proto(blob, &proto, false), CREMA_E_CORRUPT);
  crema_blob_destroy(blob);
}

TEST(counts_and_shapes_are_checked) {
  crema_shape shape = cr_shape_1(3), scalar = {0};
  crema_blob *blob = NULL;
  int64_t dim[] = {2};
  float f32[] = {1.0f, 2.0f};
  Caffe__BlobShape proto_shape;
  Caffe__BlobProto proto = row_proto(dim, &proto_shape);
  proto.n_data = 2;
  proto.data = f32;
  ok(crema_blob_create(&shape, &blob));
  assert_int_equal(cr_blob_from_proto(blob, &proto, false), CREMA_E_SHAPE);
  assert_names(WORDS("2 (2)", "3 (3)"));
  ok(cr_blob_from_proto(blob, &proto, true));
  assert_int_equal(crema_blob_count(blob), 2);
  dim[0] = INT64_MAX;
  assert_int_equal(cr_blob_from_proto(blob, &proto, true), CREMA_E_SHAPE);
  dim[0] = 1;
  assert_int_equal(cr_blob_from_proto(blob, &proto, true), CREMA_E_CORRUPT);
  /* No shape at all: a scalar. */
  proto.shape = NULL;
  proto.n_data = 1;
  ok(cr_blob_from_proto(blob, &proto, true));
  assert_true(crema_shape_equal(crema_blob_shape(blob), &scalar));
  Caffe__BlobProto *back = NULL;
  ok(cr_blob_to_proto(blob, false, &back));
  assert_true(back->shape != NULL && back->shape->n_dim == 0 && back->n_data == 1);
  cr_blob_proto_free(back);
  crema_blob_destroy(blob);
}

static int remove_dir(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}

/* BatchNorm of the NVIDIA dialect stores scale and shift behind its statistics. */
TEST(a_batch_norm_that_scales_takes_five_blobs) {
  static const char text[] = INPUT("x", DIM2(1, 2)) SCALING_NORM "}";
  static const char stored[] = SCALING_NORM
      "blobs { shape { dim: 2 } data: [1, 2] } blobs { shape { dim: 2 } data: [3, 8] }"
      " blobs { shape { dim: 1 } data: 1 } blobs { shape { dim: 2 } data: [4, 6] }"
      " blobs { shape { dim: 2 } data: [0.5, 0.25] } }";
  ProtobufCMessage *model = NULL;
  ok(cr_text_parse(&caffe__net_parameter__descriptor, stored, strlen(stored), "stored",
                   CR_UNKNOWN_ERROR, &model));
  ok(cr_message_write_binary(model, path_of("five.caffemodel")));
  cr_message_free(model);
  crema_net *net = build_model(text);
  ok(crema_net_load_weights(net, path_of("five.caffemodel")));
  fill(blob_of(net, "x"), 5.0f, 9.0f);
  ok(crema_net_forward(net, NULL));
  const float *y = data_of(blob_of(net, "y"));
  assert_near(y[0], (5.0 - 1.0) / 2.0 * 4.0 + 0.5, 1e-5);
  assert_near(y[1], (14.0 - 2.0) / 3.0 * 6.0 + 0.25, 1e-5);
  crema_net_destroy(net);
}

int main(void) {
  return run_all_tests(make_folder, remove_dir);
}
