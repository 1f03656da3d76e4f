/* Memory that runs out in the functions of the public headers. Those that return a status: each
 * allocation fails in turn, which gives CREMA_E_NO_MEMORY and a text or does no harm; nothing is
 * lost, and the same call succeeds afterwards. The others have no way to tell and allocate nothing.
 * The functions are read from the headers, so that a new one without a row fails. */
#include "allocations.h"

#include <limits.h>
#include <unistd.h>

#include "check.h"
#include "crema/crema.h"
#include "data/augment/mean.h"
#include "folder.h"
#include "house/prototypes.h"
#include "interpose.h"

/* ---- what the calls are made with ---- */

static crema_device *cpu, *sim;

/* Made anew for each attempt. */
static crema_blob *blob, *source;
static crema_context *context, *stream;
static crema_event *event;
static crema_syncedmem *memory;
static crema_net *net;
static crema_solver *solver;
static crema_model *model;
static crema_preprocessing *preprocessing;
static crema_session *session;
/* What a call makes. */
static crema_blob *made_blob;
static crema_context *made_context;
static crema_event *made_event;
static crema_syncedmem *made_memory;
static crema_net *made_net;
static crema_solver *made_solver;
static crema_model *made_model;
static crema_preprocessing *made_preprocessing, *found_preprocessing;
static crema_session *made_session;
static crema_view *made_view, *seen;
static void *made_bytes;
static char *made_text;
static crema_net *other;
static crema_net *plain; /* for ONNX */
static crema_onnx_options onnx_options;
static crema_onnx_comparison onnx_comparison;
static char onnx_path[PATH_SIZE], onnx_net_path[PATH_SIZE], onnx_weights_path[PATH_SIZE];
static crema_layer *own; /* of the net's layer of a type that this program registers */

static crema_shape shape = {.axes = 4, .dim = {1, 3, 4, 4}}, wide = {.axes = 1, .dim = {96}};
static crema_blob *found;
static crema_device *found_device;
static crema_device_info info;
static crema_device_memory device_memory;
static const float *read_out;
static const void *bytes_out;
static float *values_out, values[96], mean_values[3 * 6 * 6];
static char mean_path[PATH_SIZE];
static void *mutable_out;
static crema_devptr address;
static double loss;
static int number;
static const int zero;
static char text[64];
static const uint8_t pixels[2];
static const crema_labeled_image image = {.pixels = pixels, .channels = 1, .height = 1, .width = 2};
static crema_image_options image_options;
static int image_height, image_width;
static const crema_pixels gray = {.values = pixels, .height = 1, .width = 2, .channels = 1};
static const char *const *label;
#define PNM "P5 2 2 255\n0123"
static crema_net_options net_options;
static crema_weights_options weights_options;
static crema_solver_options solver_options;
static crema_model_options model_options;
static crema_session_options session_options;
static crema_session_memory session_memory;
static const void *as_out;
static crema_save_options save_options;
static crema_net_hooks hooks;
static size_t byte_count, weights_size;
static void *weights; /* of the net, in wire format */
static char blob_text[CREMA_BLOB_TEXT];

/* A split, a parameter that learns, and an input that can change its shape. */
#define NET                                                                           \
  "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 2 } }" \
  " transform_param { mean_value: 1 mirror: true } }\n"                               \
  "layer { name: 'm' type: 'MemoryData' top: 'y' top: 'label'\n"                      \
  "  memory_data_param { batch_size: 1 channels: 1 height: 1 width: 2 } }\n"          \
  "layer { name: 'p' type: 'Parameter' top: 'p' parameter_param { shape { dim: 3 } }" \
  " loss_weight: 1 }\n"                                                               \
  "layer { name: 'a' type: 'Silence' bottom: 'x' bottom: 'p' }\n"                     \
  "layer { name: 'b' type: 'Silence' bottom: 'x' bottom: 'p' }\n"                     \
  "layer { name: 'own' type: 'NoMemoryTest' bottom: 'x' }\n"
#define TRAINED                                                                       \
  "layer { name: 'p' type: 'Parameter' top: 'p' parameter_param { shape { dim: 3 } }" \
  " loss_weight: 1 }\n"                                                               \
  "layer { name: 'a' type: 'Silence' bottom: 'p' }\n"                                 \
  "layer { name: 'b' type: 'Silence' bottom: 'p' include { phase: TEST } }\n"

/* A parameter, a value in place, and layers without nodes in ONNX. */
#define PLAIN                                                                                      \
  "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 2 dim: 3 dim: 3 } " \
  "} }\n"                                                                                          \
  "layer { name: 'conv' type: 'Convolution' bottom: 'x' top: 'y' convolution_param {"              \
  " num_output: 2 kernel_size: 2 } }\n"                                                            \
  "layer { name: 'relu' type: 'ReLU' bottom: 'y' top: 'y' }\n"                                     \
  "layer { name: 'drop' type: 'Dropout' bottom: 'y' top: 'd' }\n"                                  \
  "layer { name: 'prob' type: 'Softmax' bottom: 'd' top: 'prob' }\n"

/* Something for each pass of a compiled model. */
#define MODEL                                                                                    \
  "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 2 } } }\n"        \
  "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' inner_product_param {"           \
  " num_output: 2 bias_term: false } }\n"                                                        \
  "layer { name: 'bn' type: 'BatchNorm' bottom: 'y' top: 'z' }\n"                                \
  "layer { name: 'drop' type: 'Dropout' bottom: 'z' top: 'd' }\n"                                \
  "layer { name: 'relu' type: 'ReLU' bottom: 'd' top: 'r' }\n"                                   \
  "layer { name: 'p' type: 'Parameter' top: 'p' parameter_param { shape { dim: 1 dim: 2 } } }\n" \
  "layer { name: 'abs' type: 'AbsVal' bottom: 'p' top: 'q' }\n"                                  \
  "layer { name: 'n1' type: 'BatchNorm' bottom: 'r' top: 's' }\n"                                \
  "layer { name: 'n2' type: 'Scale' bottom: 's' top: 't' }\n"                                    \
  "layer { name: 'sum' type: 'Eltwise' bottom: 'q' bottom: 't' top: 'u' }\n"                     \
  "layer { name: 'hush' type: 'Silence' bottom: 'x' }\n"

static crema_status be_set_up(crema_layer *layer) {
  own = layer;
  return CREMA_OK;
}

static crema_status do_nothing(crema_layer *layer) {
  (void)layer;
  return CREMA_OK;
}

static const crema_layer_type layer_type = {.type = "NoMemoryTest",
                                            .min_bottoms = 1,
                                            .max_bottoms = 1,
                                            .setup = be_set_up,
                                            .reshape = do_nothing,
                                            .forward = do_nothing};

/* A parameter, a field and a failure, as a layer's setup asks for them. */
static crema_layer_type asking_type;

static crema_status ask(crema_layer *layer) {
  const crema_shape one = {.axes = 1, .dim = {1}};
  char *field = NULL;
  crema_status status = crema_layer_add_param(layer, &one, "value: 1", NULL);
  if (status == CREMA_OK) status = crema_layer_field(layer, "name", &field);
  crema_free(field);
  return status;
}

static crema_status set_up_asking(void) {
  static const char text_of_net[] = "layer { name: 'a' type: 'NoMemoryAsking' }";
  return crema_net_parse(text_of_net, sizeof text_of_net - 1, "net", NULL, &made_net);
}

/* Fails before and after an object could be opened: this one has no types. */
static crema_status load_layers(void) {
  crema_status status = crema_layer_load(CREMA_SOURCE_DIR "/LICENSE");
  return status == CREMA_E_UNSUPPORTED ? CREMA_OK : status;
}

/* Without NCCL or a device for it the answer is no. */
static crema_status unless_missing(crema_status status) {
  return status == CREMA_E_UNSUPPORTED || status == CREMA_E_NO_DEVICE ? CREMA_OK : status;
}

static crema_status find_group(void) {
  return unless_missing(crema_group_find());
}

/* NCCL itself, where it is there, loses memory when it runs out of it. */
static crema_status make_group_id(void) {
  crema_group_id id;
  const crema_status missing = crema_group_find();
  return missing == CREMA_OK ? CREMA_OK : unless_missing(crema_group_make_id(&id));
}

static crema_status join_solver(void) {
  const crema_group_id id = {{0}};
  return unless_missing(crema_solver_join(solver, &id, 0));
}

static void forget_line(void *user, const char *line) {
  (void)user;
  (void)line;
}

INTERPOSED int fsync(int fd) {
  (void)fd;
  return 0;
}

static void *give(void *user, size_t bytes, size_t alignment) {
  (void)user;
  return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void take_back(void *user, void *block) {
  (void)user;
  free(block);
}

static const crema_host_allocator allocator = {.alloc = give, .free = take_back};

static crema_status set_allocator(void) {
  crema_status status = crema_host_set_allocator(&allocator);
  return status == CREMA_OK ? crema_host_set_allocator(NULL) : status;
}

static crema_status reshape_net(void) {
  const crema_shape more = {.axes = 2, .dim = {70, 2}};
  crema_status status = crema_blob_reshape(crema_net_input(net, 0), &more);
  return status == CREMA_OK ? crema_net_reshape(net) : status;
}

static void drop_line(void *user, crema_log_level level, const char *file, int line,
                      const char *message) {
  (void)user, (void)level, (void)file, (void)line, (void)message;
}

/* ---- the tables ---- */

/* Functions that may fail, with the objects that each needs: b(lobs), v(alues in the first),
 * m(emory), c(ontexts), e(vent), n(et), p(reprocessing of its input), o(ther net), s(olver),
 * k (a model), i (and a session of it), x (a net of phase TEST that ONNX can express). */
#define FALLIBLE(X)                                                                               \
  X(crema_blob_create, "", (&shape, &made_blob))                                                  \
  X(crema_blob_create_typed, "", (&shape, CREMA_F16, CREMA_F64, &made_blob))                      \
  X(crema_blob_data_as, "b", (blob, CREMA_F16, &as_out))                                          \
  X(crema_blob_diff_as, "b", (blob, CREMA_F16, &as_out))                                          \
  X(crema_blob_mutable_data_as, "b", (blob, CREMA_F64, &mutable_out))                             \
  X(crema_blob_mutable_diff_as, "b", (blob, CREMA_F64, &mutable_out))                             \
  X(crema_blob_amax_data, "bv", (blob, &loss))                                                    \
  X(crema_blob_amax_diff, "bv", (blob, &loss))                                                    \
  X(crema_blob_text, "b", (blob, blob_text, sizeof blob_text))                                    \
  X(crema_blob_reshape, "b", (blob, &wide))                                                       \
  X(crema_blob_cpu_data, "b", (blob, &read_out))                                                  \
  X(crema_blob_cpu_diff, "b", (blob, &read_out))                                                  \
  X(crema_blob_mutable_cpu_data, "b", (blob, &values_out))                                        \
  X(crema_blob_mutable_cpu_diff, "b", (blob, &values_out))                                        \
  X(crema_blob_set_cpu_data, "b", (blob, values))                                                 \
  X(crema_blob_set_gpu_data, "b", (blob, cpu, (crema_devptr){(uintptr_t)values}))                 \
  X(crema_blob_view_data, "b", (blob, &made_view))                                                \
  X(crema_blob_view_diff, "bv", (blob, &made_view))                                               \
  X(crema_blob_update, "bv", (blob))                                                              \
  X(crema_blob_scale_data, "bv", (blob, 2))                                                       \
  X(crema_blob_scale_diff, "bv", (blob, 2))                                                       \
  X(crema_blob_swap, "b", (blob, source))                                                         \
  X(crema_blob_copy_data, "b", (blob, source))                                                    \
  X(crema_blob_copy_diff, "b", (blob, source))                                                    \
  X(crema_device_get, "", (CREMA_DEVICE_CPU, 0, &found_device))                                   \
  X(crema_device_open, "", (CREMA_DEVICE_CPU, &zero, 1))                                          \
  X(crema_device_describe, "", (sim, &info))                                                      \
  X(crema_device_memory_read, "", (sim, &device_memory))                                          \
  X(crema_context_create, "", (sim, 1, &made_context))                                            \
  X(crema_context_finish, "c", (stream))                                                          \
  X(crema_event_create, "", (sim, &made_event))                                                   \
  X(crema_event_record, "ec", (event, context, "text"))                                           \
  X(crema_event_set_finished, "e", (event, "text"))                                               \
  X(crema_image_size, "", (path_of("a.jpg"), &image_height, &image_width))                        \
  X(crema_image_load, "b", (path_of("a.jpg"), &image_options, blob, 0))                           \
  X(crema_memory_data_set, "n", (net, "m", values, values, 4))                                    \
  X(crema_memory_data_set_images, "n", (net, "m", &image, 1))                                     \
  X(crema_memory_data_set_batch_size, "n", (net, "m", 2))                                         \
  X(crema_model_load, "", (path_of("model"), NULL, &model_options, &made_model))                  \
  X(crema_model_load_memory, "", (MODEL, sizeof MODEL - 1, NULL, 0, &model_options, &made_model)) \
  X(crema_session_create, "k", (model, &session_options, &made_session))                          \
  X(crema_session_blob, "ki", (session, "y", &found))                                             \
  X(crema_session_run, "ki", (session))                                                           \
  X(crema_session_memory_read, "ki", (session, &session_memory))                                  \
  X(crema_net_load, "", (path_of("net"), &net_options, &made_net))                                \
  X(crema_net_parse, "", (NET, sizeof NET - 1, "net", &net_options, &made_net))                   \
  X(crema_net_load_weights_with, "n", (net, path_of("weights"), &weights_options))                \
  X(crema_net_load_weights, "n", (net, path_of("weights")))                                       \
  X(crema_net_save_weights_with, "n", (net, path_of("weights"), &save_options))                   \
  X(crema_net_save_weights, "n", (net, path_of("weights")))                                       \
  X(crema_net_save_weights_memory, "n", (net, &save_options, &made_bytes, &byte_count))           \
  X(crema_net_load_weights_memory, "n", (net, weights, weights_size, "w", &weights_options))      \
  X(crema_net_share_weights, "no", (net, other))                                                  \
  X(crema_net_forward_range, "n", (net, 0, 1, &loss))                                             \
  X(crema_net_backward_range, "n", (net, 0, 1))                                                   \
  X(crema_net_set_hooks, "n", (net, &hooks))                                                      \
  X(crema_net_layer_text, "n", (net, 0, &made_text))                                              \
  X(crema_net_text, "n", (net, &made_text))                                                       \
  X(crema_net_forward, "n", (net, &loss))                                                         \
  X(crema_net_backward, "n", (net))                                                               \
  X(crema_preprocessing_create, "n", (net, 0, &made_preprocessing))                               \
  X(crema_onnx_export, "x", (plain, &onnx_options, onnx_path))                                    \
  X(crema_onnx_import, "x", (onnx_path, onnx_net_path, onnx_weights_path))                        \
  X(crema_onnx_compare, "x", (plain, onnx_path, &onnx_comparison))                                \
  X(crema_preprocessing_set_options, "np", (preprocessing, &image_options))                       \
  X(crema_preprocessing_set_labels, "np", (preprocessing, path_of("net")))                        \
  X(crema_preprocessing_labels, "np", (preprocessing, 0, &label, &byte_count))                    \
  X(crema_preprocessing_load, "bnp", (preprocessing, path_of("a.jpg"), blob, 0))                  \
  X(crema_preprocessing_decode, "bnp", (preprocessing, PNM, sizeof PNM - 1, blob, 0))             \
  X(crema_preprocessing_convert, "bnp", (preprocessing, &gray, blob, 0))                          \
  X(crema_model_preprocessing, "k", (model, 0, &found_preprocessing))                             \
  X(crema_net_blob, "n", (net, "x", &found))                                                      \
  X(crema_solver_load, "", (path_of("solver"), &solver_options, &made_solver))                    \
  X(crema_solver_load_weights, "s", (solver, path_of("trained")))                                 \
  X(crema_solver_restore, "s", (solver, path_of("s_iter_1.solverstate")))                         \
  X(crema_solver_restore_latest, "s", (solver, NULL))                                             \
  X(crema_solver_solve, "s", (solver))                                                            \
  X(crema_solver_step, "s", (solver, 1))                                                          \
  X(crema_solver_plan, "s", (solver, forget_line, NULL))                                          \
  X(crema_solver_set_calls, "s", (solver, NULL, NULL))                                            \
  X(crema_solver_set_base_lr, "s", (solver, 0.1))                                                 \
  X(crema_solver_set_max_iterations, "s", (solver, 2))                                            \
  X(crema_solver_text, "s", (solver, &made_text))                                                 \
  X(crema_solver_broadcast, "s", (solver))                                                        \
  X(crema_solver_apply_update, "s", (solver))                                                     \
  X(crema_solver_snapshot, "s", (solver))                                                         \
  X(crema_syncedmem_create, "", (sim, 8, &made_memory))                                           \
  X(crema_syncedmem_cpu_data, "m", (memory, &bytes_out))                                          \
  X(crema_syncedmem_gpu_data, "mc", (memory, stream, &address))                                   \
  X(crema_syncedmem_mutable_cpu_data, "m", (memory, true, &mutable_out))                          \
  X(crema_syncedmem_mutable_gpu_data, "mc", (memory, stream, true, &address))                     \
  X(crema_syncedmem_set_cpu_data, "m", (memory, values))                                          \
  X(crema_shape_check, "", (&shape))                                                              \
  X(crema_shape_axis, "", (&shape, 0, &number))

/* Functions that cannot fail. */
#define SAFE(X)                                                                                \
  X(crema_blob_shape, (blob))                                                                  \
  X(crema_blob_count, (blob))                                                                  \
  X(crema_blob_memory_read, (blob))                                                            \
  X(crema_view_values, (seen))                                                                 \
  X(crema_view_count, (seen))                                                                  \
  X(crema_view_release, (NULL))                                                                \
  X(crema_free, (NULL))                                                                        \
  X(crema_version, ())                                                                         \
  X(crema_blob_conversions, (blob))                                                            \
  X(crema_save_options_init, (&save_options))                                                  \
  X(crema_blob_set_typed, (blob, false))                                                       \
  X(crema_net_conversions, (net))                                                              \
  X(crema_blob_data_type, (blob))                                                              \
  X(crema_blob_diff_type, (blob))                                                              \
  X(crema_device_count, (CREMA_DEVICE_SIM))                                                    \
  X(crema_device_get_type, (sim))                                                              \
  X(crema_device_get_index, (sim))                                                             \
  X(crema_device_reaches, (sim, cpu))                                                          \
  X(crema_pinned_bytes, ())                                                                    \
  X(crema_context_device, (stream))                                                            \
  X(crema_event_query, (event))                                                                \
  X(crema_event_finish, (event))                                                               \
  X(crema_event_message, (event))                                                              \
  X(crema_event_reset, (event))                                                                \
  X(crema_event_can_schedule, (CREMA_DEVICE_SIM, CREMA_EVENT_SUCCESS, CREMA_DEVICE_CPU, true)) \
  X(crema_image_options_init, (&image_options))                                                \
  X(crema_log_set, (drop_line, NULL, CREMA_LOG_ERROR))                                         \
  X(crema_model_options_init, (&model_options))                                                \
  X(crema_model_explain, (model))                                                              \
  X(crema_onnx_options_init, (&onnx_options))                                                  \
  X(crema_preprocessing_guess, (preprocessing))                                                \
  X(crema_preprocessing_options, (preprocessing))                                              \
  X(crema_preprocessing_destroy, (made_preprocessing))                                         \
  X(crema_session_options_init, (&session_options))                                            \
  X(crema_session_input_count, (session))                                                      \
  X(crema_session_input, (session, 0))                                                         \
  X(crema_session_input_name, (session, 0))                                                    \
  X(crema_session_output_count, (session))                                                     \
  X(crema_session_output, (session, 0))                                                        \
  X(crema_session_output_name, (session, 0))                                                   \
  X(crema_net_options_init, (&net_options))                                                    \
  X(crema_weights_options_init, (&weights_options))                                            \
  X(crema_net_clear_param_diffs, (net))                                                        \
  X(crema_net_input_count, (net))                                                              \
  X(crema_net_input, (net, 0))                                                                 \
  X(crema_net_input_name, (net, 0))                                                            \
  X(crema_net_output_count, (net))                                                             \
  X(crema_net_output, (net, 0))                                                                \
  X(crema_net_output_name, (net, 0))                                                           \
  X(crema_net_blob_count, (net))                                                               \
  X(crema_net_blob_name, (net, 0))                                                             \
  X(crema_net_name, (net))                                                                     \
  X(crema_net_layer_count, (net))                                                              \
  X(crema_net_layer_name, (net, 0))                                                            \
  X(crema_net_layer_type, (net, 0))                                                            \
  X(crema_net_blob_at, (net, 0))                                                               \
  X(crema_net_blob_loss_weight, (net, 0))                                                      \
  X(crema_net_layer_bottom_count, (net, 0))                                                    \
  X(crema_net_layer_bottom, (net, 0, 0))                                                       \
  X(crema_net_layer_top_count, (net, 0))                                                       \
  X(crema_net_layer_top, (net, 0, 0))                                                          \
  X(crema_net_phase, (net))                                                                    \
  X(crema_layer_type_count, ())                                                                \
  X(crema_layer_type_name, (1000))                                                             \
  X(crema_layer_name, (own))                                                                   \
  X(crema_layer_phase, (own))                                                                  \
  X(crema_layer_user, (own))                                                                   \
  X(crema_layer_state, (own))                                                                  \
  X(crema_net_layer_state, (net, 0))                                                           \
  X(crema_layer_set_state, (own, NULL))                                                        \
  X(crema_layer_bottom_count, (own))                                                           \
  X(crema_layer_bottom, (own, 0))                                                              \
  X(crema_layer_top_count, (own))                                                              \
  X(crema_layer_top, (own, 0))                                                                 \
  X(crema_layer_propagate_down, (own, 0))                                                      \
  X(crema_layer_param_count, (own))                                                            \
  X(crema_layer_param, (own, 0))                                                               \
  X(crema_layer_param_learns, (own, 0))                                                        \
  X(crema_net_layer_param_count, (net, 0))                                                     \
  X(crema_net_layer_param, (net, 0, 0))                                                        \
  X(crema_solver_options_init, (&solver_options))                                              \
  X(crema_solver_base_lr, (solver))                                                            \
  X(crema_solver_max_iterations, (solver))                                                     \
  X(crema_solver_rate, (solver))                                                               \
  X(crema_solver_iteration, (solver))                                                          \
  X(crema_solver_net, (solver))                                                                \
  X(crema_solver_test_net_count, (solver))                                                     \
  X(crema_solver_test_net, (solver, 0))                                                        \
  X(crema_status_name, (CREMA_E_IO))                                                           \
  X(crema_status_message, (CREMA_E_IO))                                                        \
  X(crema_error_text, ())                                                                      \
  X(crema_error_layer, ())                                                                     \
  X(crema_error_blob, ())                                                                      \
  X(crema_error_file, ())                                                                      \
  X(crema_error_line, ())                                                                      \
  X(crema_syncedmem_head, (memory))                                                            \
  X(crema_syncedmem_size, (memory))                                                            \
  X(crema_dtype_size, (CREMA_F32))                                                             \
  X(crema_dtype_name, (CREMA_F32))                                                             \
  X(crema_shape_count, (&shape, 0, 4))                                                         \
  X(crema_shape_equal, (&shape, &wide))                                                        \
  X(crema_shape_text, (&shape, text, sizeof text))                                             \
  X(crema_blob_destroy, (made_blob))                                                           \
  X(crema_context_destroy, (made_context))                                                     \
  X(crema_event_destroy, (made_event))                                                         \
  X(crema_net_destroy, (made_net))                                                             \
  X(crema_session_destroy, (made_session))                                                     \
  X(crema_model_destroy, (made_model))                                                         \
  X(crema_solver_destroy, (made_solver))                                                       \
  X(crema_syncedmem_destroy, (made_memory))

#define CALL_FALLIBLE(name, needs, arguments) \
  static crema_status call_##name(void) {     \
    return name arguments;                    \
  }
#define CALL_SAFE(name, arguments) \
  static void call_##name(void) {  \
    (void)name arguments;          \
  }
FALLIBLE(CALL_FALLIBLE)
SAFE(CALL_SAFE)

/* Waiting for work that has failed is a failure as well, so the event succeeds here. */
static crema_status wait_for_event(void) {
  crema_status status = crema_event_set_finished(event, NULL);
  return status == CREMA_OK ? crema_event_wait(event, context) : status;
}

/* The devices start with the first success. */
static crema_status simulate(void) {
  return crema_device_simulate("1");
}

/* Device memory that is freed while its stream is at work gets an event, which the pool keeps. Here
 * and in free_objects the stream is waited for, so that its speed does not matter to the count. */
static crema_status set_device_data(void) {
  crema_devptr given;
  crema_status status = crema_syncedmem_gpu_data(memory, stream, &given);
  if (status == CREMA_OK) status = crema_context_finish(stream);
  return status == CREMA_OK ? crema_syncedmem_set_gpu_data(memory, given) : status;
}

static crema_status push(void) {
  crema_status status = crema_syncedmem_mutable_cpu_data(memory, false, &mutable_out);
  return status == CREMA_OK ? crema_syncedmem_async_push(memory, stream) : status;
}

typedef struct fallible_row {
  const char *name, *needs;
  crema_status (*call)(void);
} fallible_row;

#define ROW_FALLIBLE(name, needs, arguments) {#name, needs, call_##name},
static const fallible_row fallible[] = {
    FALLIBLE(ROW_FALLIBLE){"crema_event_wait", "ec", wait_for_event},
    {"crema_device_simulate", "", NULL}, /* a test of its own */
    {"crema_host_set_allocator", "", set_allocator},
    {"crema_layer_load", "", load_layers},
    {"crema_group_find", "", find_group},
    {"crema_group_make_id", "", make_group_id},
    {"crema_solver_join", "s", join_solver},
    {"crema_layer_register", "", NULL}, /* a test of its own: there is no way back */
    {"crema_layer_add_param", "", set_up_asking},
    {"crema_layer_field", "", set_up_asking},
    {"crema_layer_fail", "", NULL}, /* makes a failure, which never allocates */
    {"crema_error_set", "", NULL},  /* likewise */
    {"crema_net_reshape", "n", reshape_net},
    {"crema_syncedmem_set_gpu_data", "mc", set_device_data},
    {"crema_syncedmem_async_push", "mc", push},
};
enum { FALLIBLE_ROWS = sizeof fallible / sizeof fallible[0] };

typedef struct safe_row {
  const char *name;
  void (*call)(void);
} safe_row;

#define ROW_SAFE(name, arguments) {#name, call_##name},
static const safe_row safe[] = {SAFE(ROW_SAFE)};
enum { SAFE_ROWS = sizeof safe / sizeof safe[0] };

/* ---- trying ---- */

static bool needs(const char *objects, char object) {
  return strchr(objects, object) != NULL;
}

static void fill(crema_blob *out) {
  ok(crema_blob_mutable_cpu_data(out, &values_out));
  memset(values_out, 0, 48 * sizeof *values_out);
  ok(crema_blob_mutable_cpu_diff(out, &values_out));
  memset(values_out, 0, 48 * sizeof *values_out);
}

static void make_objects(const char *objects) {
  if (needs(objects, 'b')) {
    ok(crema_blob_create(&shape, &blob));
    ok(crema_blob_create(&shape, &source));
    fill(source);
    if (needs(objects, 'v')) fill(blob);
  }
  if (needs(objects, 'm')) ok(crema_syncedmem_create(sim, sizeof values, &memory));
  if (needs(objects, 'c')) {
    ok(crema_context_create(cpu, 1, &context));
    ok(crema_context_create(sim, 1, &stream));
  }
  if (needs(objects, 'e')) ok(crema_event_create(cpu, &event));
  if (needs(objects, 'n')) {
    ok(crema_net_load(path_of("net"), &net_options, &net));
    ok(crema_memory_data_set(net, "m", values, values, 2));
  }
  if (needs(objects, 'p')) {
    ok(crema_preprocessing_create(net, 0, &preprocessing));
    ok(crema_preprocessing_set_options(preprocessing, &image_options));
    ok(crema_preprocessing_set_labels(preprocessing, path_of("solver")));
  }
  if (needs(objects, 'k')) ok(crema_model_load(path_of("model"), NULL, &model_options, &model));
  if (needs(objects, 'i')) ok(crema_session_create(model, &session_options, &session));
  if (needs(objects, 'o')) ok(crema_net_load(path_of("net"), &net_options, &other));
  if (needs(objects, 'x')) ok(crema_net_load(path_of("plain"), NULL, &plain));
  if (needs(objects, 's')) ok(crema_solver_load(path_of("solver"), &solver_options, &solver));
}

#define FREE(destroy, object) \
  do {                        \
    destroy(object);          \
    (object) = NULL;          \
  } while (0)

static void free_made(void) {
  FREE(crema_preprocessing_destroy, made_preprocessing);
  FREE(crema_session_destroy, made_session);
  FREE(crema_model_destroy, made_model);
  FREE(crema_blob_destroy, made_blob);
  FREE(crema_context_destroy, made_context);
  FREE(crema_event_destroy, made_event);
  FREE(crema_syncedmem_destroy, made_memory);
  FREE(crema_net_destroy, made_net);
  FREE(crema_solver_destroy, made_solver);
  FREE(crema_view_release, made_view);
  FREE(crema_free, made_bytes);
  FREE(crema_free, made_text);
}

static void free_objects(void) {
  free_made();
  FREE(crema_preprocessing_destroy, preprocessing);
  FREE(crema_session_destroy, session);
  FREE(crema_model_destroy, model);
  FREE(crema_solver_destroy, solver);
  FREE(crema_net_destroy, other);
  FREE(crema_net_destroy, plain);
  FREE(crema_net_destroy, net);
  FREE(crema_event_destroy, event);
  if (stream != NULL) ok(crema_context_finish(stream));
  FREE(crema_syncedmem_destroy, memory);
  FREE(crema_context_destroy, stream);
  FREE(crema_context_destroy, context);
  FREE(crema_blob_destroy, source);
  FREE(crema_blob_destroy, blob);
}

/* The n-th allocation fails. Returns false when there are not so many; *lost are the blocks that
 * are left over. */
static bool try_one(const fallible_row *row, long n, long *lost) {
  const long before = live_blocks();
  make_objects(row->needs);
  no_memory_arm(n);
  crema_status status = row->call();
  bool hit = no_memory_end();
  if (status != CREMA_OK &&
      !(hit && status == CREMA_E_NO_MEMORY && crema_error_text()[0] != '\0')) {
    fail_msg("%s, allocation %ld%s: %s: \"%s\"", row->name, n, hit ? "" : ", which works",
             crema_status_name(status), crema_error_text());
  }
  if (status != CREMA_OK) {
    if (made_blob || made_context || made_event || made_memory || made_net || made_solver ||
        made_model || made_session || made_view || made_bytes || made_text) {
      fail_msg("%s, allocation %ld: fails and gives something", row->name, n);
    }
    status = row->call();
    if (status != CREMA_OK) {
      fail_msg("%s after allocation %ld failed: %s: \"%s\"", row->name, n,
               crema_status_name(status), crema_error_text());
    }
  }
  free_objects();
  *lost = live_blocks() - before;
  return hit;
}

static bool fail_one(const fallible_row *row, long n) {
  enum { TRIES = 4 };
  long lost = 0;
  bool hit = try_one(row, n, &lost);
  /* Threads of a library may have made something for themselves, once; a loss comes again. */
  for (int i = 1; lost != 0 && i < TRIES; ++i) hit = try_one(row, n, &lost);
  if (lost != 0) fail_msg("%s, allocation %ld: %ld blocks are lost", row->name, n, lost);
  return hit;
}

/* Succeeds once. */
TEST(simulated_devices) {
  if (crema_device_count(CREMA_DEVICE_SIM) > 0) skip(); /* the environment has started them */
  long n = 0;
  for (crema_status status = CREMA_E_NO_MEMORY; status != CREMA_OK; ++n) {
    const long before = live_blocks();
    no_memory_arm(n);
    status = simulate();
    bool hit = no_memory_end();
    if (status == CREMA_OK) break;
    assert_true(hit);
    assert_int_equal(status, CREMA_E_NO_MEMORY);
    assert_int_equal(crema_device_count(CREMA_DEVICE_SIM), 0);
    assert_int_equal(live_blocks(), before);
  }
}

TEST(layer_types) {
  crema_layer_type type = layer_type;
  type.type = "NoMemoryLast";
  long n = 0;
  for (crema_status status = CREMA_E_NO_MEMORY; status != CREMA_OK; ++n) {
    const long before = live_blocks();
    no_memory_arm(n);
    status = crema_layer_register(&type);
    bool hit = no_memory_end();
    if (status == CREMA_OK) break;
    assert_true(hit);
    assert_int_equal(status, CREMA_E_NO_MEMORY);
    assert_true(live_blocks() <= before); /* other threads may still be ending */
  }
  assert_true(n > 1);
}

TEST(each_allocation_fails) {
  long all = 0;
  if (sim == NULL) ok(crema_device_get(CREMA_DEVICE_SIM, 0, &sim));
  for (int i = 0; i < FALLIBLE_ROWS; ++i) {
    const fallible_row *row = &fallible[i];
    if (row->call == NULL) continue;
    make_objects(row->needs); /* what the process keeps is made by now */
    (void)row->call();
    free_objects();
    long n = 0;
    while (fail_one(row, n)) ++n;
    all += n;
  }
  print_message("%d functions, %ld allocations failed\n", FALLIBLE_ROWS, all);
  assert_true(all > 500);
}

TEST(others_allocate_nothing) {
  make_objects("bmcenpski");
  ok(crema_event_set_finished(event, "text"));
  ok(crema_blob_create(&shape, &made_blob));
  ok(crema_context_create(sim, 1, &made_context));
  ok(crema_event_create(cpu, &made_event));
  ok(crema_syncedmem_create(sim, 8, &made_memory));
  ok(crema_net_load(path_of("net"), &net_options, &made_net));
  ok(crema_solver_load(path_of("solver"), &solver_options, &made_solver));
  ok(crema_model_load(path_of("model"), NULL, &model_options, &made_model));
  ok(crema_session_create(made_model, &session_options, &made_session));
  ok(crema_preprocessing_create(net, 0, &made_preprocessing));
  ok(crema_blob_view_data(blob, &seen));
  for (int i = 0; i < SAFE_ROWS; ++i) {
    no_memory_arm(LONG_MAX);
    safe[i].call();
    (void)no_memory_end();
    if (atomic_load(&no_memory->bytes) > 0) {
      fail_msg("%s allocates %zu bytes", safe[i].name, atomic_load(&no_memory->bytes));
    }
  }
  made_blob = NULL;
  made_context = NULL;
  made_event = NULL;
  made_memory = NULL;
  made_net = NULL;
  made_solver = NULL;
  made_model = NULL;
  made_session = NULL;
  made_preprocessing = NULL;
  FREE(crema_view_release, seen);
  free_objects();
}

static void find_row(const prototype *function, void *user) {
  int rows = 0;
  (void)user;
  for (int i = 0; i < FALLIBLE_ROWS; ++i) rows += strcmp(fallible[i].name, function->name) == 0;
  for (int i = 0; i < SAFE_ROWS; ++i) rows += strcmp(safe[i].name, function->name) == 0;
  if (rows != 1) fail_msg("%s has %d rows in this test", function->name, rows);
}

TEST(each_function_has_a_row) {
  assert_int_equal(each_public_function(find_row, NULL), FALLIBLE_ROWS + SAFE_ROWS);
}

/* ---- files ---- */

static int make_files(void **state) {
  char solver_text[1024];
  if (make_folder(state) != 0) return 1;
  crema_log_set(drop_line, NULL, CREMA_LOG_ERROR);
  asking_type = layer_type;
  asking_type.type = "NoMemoryAsking";
  asking_type.min_bottoms = asking_type.max_bottoms = 0;
  asking_type.setup = ask;
  ok(crema_layer_register(&layer_type));
  ok(crema_layer_register(&asking_type));
  write_text("net", NET);
  write_text("model", MODEL);
  write_text("plain", PLAIN);
  snprintf(onnx_path, sizeof onnx_path, "%s/plain.onnx", folder);
  snprintf(onnx_net_path, sizeof onnx_net_path, "%s/read", folder);
  snprintf(onnx_weights_path, sizeof onnx_weights_path, "%s/read_weights", folder);
  snprintf(solver_text, sizeof solver_text,
           "net_param { %s } base_lr: 0.1 momentum: 0.9 lr_policy: 'fixed' max_iter: 2 display: 1\n"
           "test_iter: 1 test_interval: 1 solver_mode: CPU snapshot_prefix: '%s/s' random_seed: 1\n"
           "train_state { stage: 'a' stage: 'b' } test_state { stage: 'c' }\n",
           TRAINED, folder);
  write_text("solver", solver_text);
  snprintf(mean_path, sizeof mean_path, "%s/mean", folder);
  ok(cr_mean_write(mean_path, &(cr_mean){3, 6, 6, mean_values}));
  assert_int_equal(symlink(CREMA_SOURCE_DIR "/examples/images/cat.jpg", path_of("a.jpg")), 0);
  crema_image_options_init(&image_options);
  image_options.resize_height = image_options.resize_width = 6;
  image_options.mean_file = mean_path;
  crema_net_options_init(&net_options);
  crema_weights_options_init(&weights_options);
  crema_model_options_init(&model_options);
  crema_onnx_options_init(&onnx_options);
  crema_session_options_init(&session_options);
  crema_solver_options_init(&solver_options);
  ok(crema_device_get(CREMA_DEVICE_CPU, 0, &cpu));
  make_objects("nsx");
  ok(crema_net_save_weights(net, path_of("weights")));
  ok(crema_net_save_weights_memory(net, NULL, &weights, &weights_size));
  ok(crema_net_save_weights(crema_solver_net(solver), path_of("trained")));
  ok(crema_solver_step(solver, 1));
  ok(crema_solver_snapshot(solver));
  ok(crema_onnx_export(plain, &onnx_options, onnx_path));
  free_objects();
  return 0;
}

static int remove_files(void **state) {
  static const char *const names[] = {"net",
                                      "model",
                                      "plain",
                                      "plain.onnx",
                                      "read",
                                      "read_weights",
                                      "solver",
                                      "mean",
                                      "a.jpg",
                                      "weights",
                                      "trained",
                                      "s_iter_0.solverstate",
                                      "s_iter_0.caffemodel",
                                      "s_iter_1.solverstate",
                                      "s_iter_1.caffemodel",
                                      "s_iter_2.solverstate",
                                      "s_iter_2.caffemodel"};
  (void)state;
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) unlink(path_of(names[i]));
  crema_free(weights);
  return remove_folder(state);
}

int main(void) {
  return run_all_tests(make_files, remove_files);
}
