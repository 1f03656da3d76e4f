/* Every function of the public headers with each of its pointers NULL in turn: an error that names
 * the function and the argument, or what its row says, and never a fault. The functions and their
 * parameters are read from the headers, so that a new one without a row fails. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "core/file.h"
#include "crema/crema.h"
#include "house/prototypes.h"

/* ---- what the calls are made with ---- */

static int null_at; /* the number of the pointer that is NULL, counted among the pointers */
#define A(number, pointer) (null_at == (number) ? NULL : (pointer))

static char dir[] = "/tmp/crema-arguments-XXXXXX", net_path[64], solver_path[64], missing[64];
static crema_shape shape = {.axes = 1, .dim = {1}};
static float values[4], *values_out;
static const float *read_out;
static const void *bytes_out;
static void *mutable_out;
static char text[64];
static int number;
static const int zero;
static crema_devptr address;
static crema_labeled_image image;
static crema_image_options image_options;
static int image_height, image_width;
static crema_pixels pixels;
static const char *const *label;
static crema_net_options net_options;
static crema_save_options save_options;
static crema_weights_options weights_options;
static crema_solver_options solver_options;
static crema_model_options model_options;
static crema_onnx_options onnx_options;
static crema_onnx_comparison onnx_comparison;
static crema_session_options session_options;
static crema_session_memory session_memory;
static crema_device_info info;
static crema_device_memory device_memory;
static const crema_host_allocator allocator; /* has no functions: is refused */
static double loss;
static crema_net_hooks hooks;

static crema_device *cpu;
static crema_context *context;
static crema_event *event;
static crema_blob *blob;
static crema_net *net;
static bool was_found;
static crema_group_id group_id;
static crema_layer_type layer_type; /* has no functions: is refused */
static crema_view *view;
static size_t byte_count;
static crema_solver *solver;
static crema_syncedmem *memory;
static crema_model *model;
static crema_preprocessing *preprocessing;
static crema_session *session;

/* What a call makes when its NULL is allowed; freed after each. */
static crema_device *found_device;
static crema_blob *found_blob, *made_blob;
static crema_context *made_context;
static crema_event *made_event;
static crema_net *made_net;
static crema_solver *made_solver;
static crema_syncedmem *made_memory;
static crema_model *made_model;
static crema_preprocessing *found_preprocessing, *made_preprocessing;
static crema_session *made_session;
static crema_view *made_view;
static void *made_bytes;
static char *made_text;

/* Of a layer type that this program registers, as its own functions see it. */
static crema_layer *layer;

#define NET "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 1 } } }"

static void free_made(void) {
  crema_preprocessing_destroy(made_preprocessing);
  made_preprocessing = NULL;
  crema_session_destroy(made_session);
  crema_model_destroy(made_model);
  made_session = NULL;
  made_model = NULL;
  crema_blob_destroy(made_blob);
  crema_context_destroy(made_context);
  crema_event_destroy(made_event);
  crema_net_destroy(made_net);
  crema_solver_destroy(made_solver);
  crema_syncedmem_destroy(made_memory);
  crema_view_release(made_view);
  crema_free(made_bytes);
  crema_free(made_text);
  made_view = NULL;
  made_bytes = NULL;
  made_text = NULL;
  made_blob = NULL;
  made_context = NULL;
  made_event = NULL;
  made_net = NULL;
  made_solver = NULL;
  made_memory = NULL;
}

static void forget_line(void *user, const char *line) {
  (void)user;
  (void)line;
}

static int64_t memory_read_is_zero(void) {
  crema_blob_memory read = crema_blob_memory_read(A(0, blob));
  return (int64_t)(read.data_host + read.data_device + read.diff_host + read.diff_device);
}

static int64_t is_empty_text(const char *result) {
  return result == NULL || result[0] == '\0';
}

/* ---- the table ---- */

/* S: a status, CREMA_E_ARGUMENT for every NULL. V: a plain value, the one given for every NULL.
 * N: nothing is returned. O: as S, but NULL is allowed, or answered otherwise, for those arguments
 * that are named. */
#define CALLS(S, V, N, O)                                                                         \
  S(crema_blob_create, (A(0, &shape), A(1, &made_blob)))                                          \
  S(crema_blob_create_typed, (A(0, &shape), CREMA_F32, CREMA_F32, A(1, &made_blob)))              \
  N(crema_blob_set_typed, (A(0, blob), false))                                                    \
  N(crema_blob_destroy, (A(0, blob)))                                                             \
  V(crema_blob_shape, 0, (A(0, blob)))                                                            \
  V(crema_blob_count, 0, (A(0, blob)))                                                            \
  S(crema_blob_reshape, (A(0, blob), A(1, &shape)))                                               \
  S(crema_blob_cpu_data, (A(0, blob), A(1, &read_out)))                                           \
  S(crema_blob_cpu_diff, (A(0, blob), A(1, &read_out)))                                           \
  S(crema_blob_mutable_cpu_data, (A(0, blob), A(1, &values_out)))                                 \
  S(crema_blob_mutable_cpu_diff, (A(0, blob), A(1, &values_out)))                                 \
  S(crema_blob_data_as, (A(0, blob), CREMA_F32, A(1, &bytes_out)))                                \
  S(crema_blob_diff_as, (A(0, blob), CREMA_F32, A(1, &bytes_out)))                                \
  S(crema_blob_mutable_data_as, (A(0, blob), CREMA_F32, A(1, &mutable_out)))                      \
  S(crema_blob_mutable_diff_as, (A(0, blob), CREMA_F32, A(1, &mutable_out)))                      \
  V(crema_blob_conversions, 0, (A(0, blob)))                                                      \
  S(crema_blob_amax_data, (A(0, blob), A(1, &loss)))                                              \
  S(crema_blob_amax_diff, (A(0, blob), A(1, &loss)))                                              \
  S(crema_blob_text, (A(0, blob), A(1, text), sizeof text))                                       \
  S(crema_blob_set_cpu_data, (A(0, blob), A(1, values)))                                          \
  O(crema_blob_set_gpu_data, "device", (A(0, blob), A(1, cpu), address))                          \
  S(crema_blob_update, (A(0, blob)))                                                              \
  S(crema_blob_scale_data, (A(0, blob), 1))                                                       \
  S(crema_blob_scale_diff, (A(0, blob), 1))                                                       \
  S(crema_blob_swap, (A(0, blob), A(1, blob)))                                                    \
  S(crema_blob_copy_data, (A(0, blob), A(1, blob)))                                               \
  S(crema_blob_copy_diff, (A(0, blob), A(1, blob)))                                               \
  S(crema_blob_view_data, (A(0, blob), A(1, &made_view)))                                         \
  S(crema_blob_view_diff, (A(0, blob), A(1, &made_view)))                                         \
  V(crema_view_values, 0, (A(0, view)))                                                           \
  V(crema_view_count, 0, (A(0, view)))                                                            \
  N(crema_view_release, (A(0, view)))                                                             \
  N(crema_free, (A(0, made_text)))                                                                \
  V(crema_blob_data_type, 0, (A(0, blob)))                                                        \
  V(crema_blob_diff_type, 0, (A(0, blob)))                                                        \
  S(crema_device_get, (CREMA_DEVICE_CPU, 0, A(0, &found_device)))                                 \
  S(crema_device_open, (CREMA_DEVICE_CPU, A(0, &zero), 1))                                        \
  V(crema_device_get_type, CREMA_DEVICE_CPU, (A(0, cpu)))                                         \
  V(crema_device_get_index, 0, (A(0, cpu)))                                                       \
  S(crema_device_describe, (A(0, cpu), A(1, &info)))                                              \
  V(crema_device_reaches, false, (A(0, cpu), A(1, cpu)))                                          \
  S(crema_device_simulate, (A(0, "1")))                                                           \
  S(crema_device_memory_read, (A(0, cpu), A(1, &device_memory)))                                  \
  O(crema_host_set_allocator, "allocator", (A(0, &allocator)))                                    \
  O(crema_context_create, "device", (A(0, cpu), 1, A(1, &made_context)))                          \
  N(crema_context_destroy, (A(0, context)))                                                       \
  V(crema_context_device, 0, (A(0, context)))                                                     \
  S(crema_context_finish, (A(0, context)))                                                        \
  S(crema_event_create, (A(0, cpu), A(1, &made_event)))                                           \
  N(crema_event_destroy, (A(0, event)))                                                           \
  O(crema_event_record, "failure", (A(0, event), A(1, context), A(2, "text")))                    \
  O(crema_event_set_finished, "failure", (A(0, event), A(1, "text")))                             \
  V(crema_event_query, CREMA_EVENT_FAILED, (A(0, event)))                                         \
  V(crema_event_finish, CREMA_EVENT_FAILED, (A(0, event)))                                        \
  S(crema_event_wait, (A(0, event), A(1, context)))                                               \
  N(crema_event_reset, (A(0, event)))                                                             \
  N(crema_image_options_init, (A(0, &image_options)))                                             \
  S(crema_image_size, (A(0, missing), A(1, &image_height), A(2, &image_width)))                   \
  O(crema_image_load, "options", (A(0, missing), A(1, &image_options), A(2, blob), 0))            \
  N(crema_log_set, (A(0, drop_line), A(1, text), CREMA_LOG_ERROR))                                \
  S(crema_memory_data_set, (A(0, net), A(1, "in"), A(2, values), A(3, values), 1))                \
  S(crema_memory_data_set_images, (A(0, net), A(1, "in"), A(2, &image), 1))                       \
  S(crema_memory_data_set_batch_size, (A(0, net), A(1, "in"), 1))                                 \
  N(crema_model_options_init, (A(0, &model_options)))                                             \
  O(crema_model_load, "weights options",                                                          \
    (A(0, net_path), A(1, ""), A(2, &model_options), A(3, &made_model)))                          \
  O(crema_model_load_memory, "weights options",                                                   \
    (A(0, NET), sizeof NET - 1, A(1, NULL), 0, A(2, &model_options), A(3, &made_model)))          \
  N(crema_model_destroy, (A(0, model)))                                                           \
  V(crema_model_explain, 0, (A(0, model)))                                                        \
  S(crema_model_preprocessing, (A(0, model), 0, A(1, &found_preprocessing)))                      \
  N(crema_onnx_options_init, (A(0, &onnx_options)))                                               \
  O(crema_onnx_export, "options", (A(0, net), A(1, &onnx_options), A(2, missing)))                \
  S(crema_onnx_import, (A(0, missing), A(1, missing), A(2, missing)))                             \
  S(crema_onnx_compare, (A(0, net), A(1, missing), A(2, &onnx_comparison)))                       \
  S(crema_preprocessing_create, (A(0, net), 0, A(1, &made_preprocessing)))                        \
  N(crema_preprocessing_destroy, (A(0, preprocessing)))                                           \
  V(crema_preprocessing_guess, 0, (A(0, preprocessing)))                                          \
  V(crema_preprocessing_options, 0, (A(0, preprocessing)))                                        \
  S(crema_preprocessing_set_options, (A(0, preprocessing), A(1, &image_options)))                 \
  O(crema_preprocessing_set_labels, "path", (A(0, preprocessing), A(1, missing)))                 \
  S(crema_preprocessing_labels, (A(0, preprocessing), 0, A(1, &label), A(2, &byte_count)))        \
  S(crema_preprocessing_load, (A(0, preprocessing), A(1, missing), A(2, blob), 0))                \
  S(crema_preprocessing_decode, (A(0, preprocessing), A(1, text), sizeof text, A(2, blob), 0))    \
  S(crema_preprocessing_convert, (A(0, preprocessing), A(1, &pixels), A(2, blob), 0))             \
  N(crema_session_options_init, (A(0, &session_options)))                                         \
  O(crema_session_create, "options", (A(0, model), A(1, &session_options), A(2, &made_session)))  \
  N(crema_session_destroy, (A(0, session)))                                                       \
  V(crema_session_input_count, 0, (A(0, session)))                                                \
  V(crema_session_input, 0, (A(0, session), 0))                                                   \
  V(crema_session_input_name, 0, (A(0, session), 0))                                              \
  V(crema_session_output_count, 0, (A(0, session)))                                               \
  V(crema_session_output, 0, (A(0, session), 0))                                                  \
  V(crema_session_output_name, 0, (A(0, session), 0))                                             \
  S(crema_session_blob, (A(0, session), A(1, "x"), A(2, &found_blob)))                            \
  S(crema_session_run, (A(0, session)))                                                           \
  S(crema_session_memory_read, (A(0, session), A(1, &session_memory)))                            \
  N(crema_net_options_init, (A(0, &net_options)))                                                 \
  O(crema_net_load, "options", (A(0, net_path), A(1, &net_options), A(2, &made_net)))             \
  O(crema_net_parse, "source options",                                                            \
    (A(0, NET), sizeof NET - 1, A(1, "net"), A(2, &net_options), A(3, &made_net)))                \
  N(crema_net_destroy, (A(0, net)))                                                               \
  N(crema_weights_options_init, (A(0, &weights_options)))                                         \
  O(crema_net_load_weights_with, "options", (A(0, net), A(1, missing), A(2, &weights_options)))   \
  O(crema_net_load_weights_memory, "source options",                                              \
    (A(0, net), A(1, text), sizeof text, A(2, "weights"), A(3, &weights_options)))                \
  S(crema_net_load_weights, (A(0, net), A(1, missing)))                                           \
  N(crema_save_options_init, (A(0, &save_options)))                                               \
  O(crema_net_save_weights_with, "options", (A(0, net), A(1, missing), A(2, &save_options)))      \
  S(crema_net_save_weights, (A(0, net), A(1, missing)))                                           \
  O(crema_net_save_weights_memory, "options",                                                     \
    (A(0, net), A(1, &save_options), A(2, &made_bytes), A(3, &byte_count)))                       \
  S(crema_net_share_weights, (A(0, net), A(1, net)))                                              \
  O(crema_net_forward_range, "loss", (A(0, net), 0, 0, A(1, &loss)))                              \
  S(crema_net_backward_range, (A(0, net), 0, 0))                                                  \
  O(crema_net_set_hooks, "hooks", (A(0, net), A(1, &hooks)))                                      \
  V(crema_net_blob_at, 0, (A(0, net), 0))                                                         \
  V(crema_net_layer_bottom_count, 0, (A(0, net), 0))                                              \
  V(crema_net_layer_bottom, -1, (A(0, net), 0, 0))                                                \
  V(crema_net_layer_top_count, 0, (A(0, net), 0))                                                 \
  V(crema_net_layer_top, -1, (A(0, net), 0, 0))                                                   \
  S(crema_net_layer_text, (A(0, net), 0, A(1, &made_text)))                                       \
  S(crema_net_text, (A(0, net), A(1, &made_text)))                                                \
  V(crema_net_phase, CREMA_TRAIN, (A(0, net)))                                                    \
  S(crema_layer_load, (A(0, missing)))                                                            \
  S(crema_layer_register, (A(0, &layer_type)))                                                    \
  V(crema_layer_name, 0, (A(0, layer)))                                                           \
  V(crema_layer_phase, CREMA_TRAIN, (A(0, layer)))                                                \
  V(crema_layer_user, 0, (A(0, layer)))                                                           \
  V(crema_layer_state, 0, (A(0, layer)))                                                          \
  V(crema_net_layer_state, 0, (A(0, net), 0))                                                     \
  N(crema_layer_set_state, (A(0, layer), A(1, text)))                                             \
  V(crema_layer_bottom_count, 0, (A(0, layer)))                                                   \
  V(crema_layer_bottom, 0, (A(0, layer), 0))                                                      \
  V(crema_layer_top_count, 0, (A(0, layer)))                                                      \
  V(crema_layer_top, 0, (A(0, layer), 0))                                                         \
  V(crema_layer_propagate_down, false, (A(0, layer), 0))                                          \
  V(crema_layer_param_count, 0, (A(0, layer)))                                                    \
  V(crema_layer_param, 0, (A(0, layer), 0))                                                       \
  V(crema_layer_param_learns, false, (A(0, layer), 0))                                            \
  O(crema_layer_add_param, "filler out",                                                          \
    (A(0, layer), A(1, &shape), A(2, "value: 1"), A(3, &found_blob)))                             \
  S(crema_layer_field, (A(0, layer), A(1, "name"), A(2, &made_text)))                             \
  S(crema_error_set, (CREMA_E_RANGE, A(0, "text")))                                               \
  S(crema_layer_fail, (A(0, layer), CREMA_E_RANGE, A(1, "text")))                                 \
  O(crema_net_forward, "loss", (A(0, net), A(1, &loss)))                                          \
  S(crema_net_backward, (A(0, net)))                                                              \
  V(crema_net_conversions, 0, (A(0, net)))                                                        \
  N(crema_net_clear_param_diffs, (A(0, net)))                                                     \
  S(crema_net_reshape, (A(0, net)))                                                               \
  V(crema_net_input_count, 0, (A(0, net)))                                                        \
  V(crema_net_input, 0, (A(0, net), 0))                                                           \
  V(crema_net_input_name, 0, (A(0, net), 0))                                                      \
  V(crema_net_output_count, 0, (A(0, net)))                                                       \
  V(crema_net_output, 0, (A(0, net), 0))                                                          \
  V(crema_net_output_name, 0, (A(0, net), 0))                                                     \
  S(crema_net_blob, (A(0, net), A(1, "x"), A(2, &found_blob)))                                    \
  V(crema_net_blob_count, 0, (A(0, net)))                                                         \
  V(crema_net_blob_name, 0, (A(0, net), 0))                                                       \
  V(crema_net_name, 0, (A(0, net)))                                                               \
  V(crema_net_layer_count, 0, (A(0, net)))                                                        \
  V(crema_net_layer_name, 0, (A(0, net), 0))                                                      \
  V(crema_net_layer_type, 0, (A(0, net), 0))                                                      \
  V(crema_net_layer_param_count, 0, (A(0, net), 0))                                               \
  V(crema_net_layer_param, 0, (A(0, net), 0, 0))                                                  \
  N(crema_solver_options_init, (A(0, &solver_options)))                                           \
  O(crema_solver_load, "options", (A(0, solver_path), A(1, &solver_options), A(2, &made_solver))) \
  N(crema_solver_destroy, (A(0, solver)))                                                         \
  O(crema_solver_load_weights, "paths", (A(0, solver), A(1, missing)))                            \
  S(crema_solver_restore, (A(0, solver), A(1, missing)))                                          \
  O(crema_solver_restore_latest, "found", (A(0, solver), A(1, &was_found)))                       \
  S(crema_solver_solve, (A(0, solver)))                                                           \
  S(crema_solver_step, (A(0, solver), 1))                                                         \
  O(crema_solver_plan, "user", (A(0, solver), A(1, forget_line), A(2, &was_found)))               \
  S(crema_solver_snapshot, (A(0, solver)))                                                        \
  V(crema_solver_iteration, 0, (A(0, solver)))                                                    \
  O(crema_solver_set_calls, "iteration_start gradients_ready", (A(0, solver), NULL, NULL))        \
  S(crema_solver_set_base_lr, (A(0, solver), 0.1))                                                \
  V(crema_solver_max_iterations, 0, (A(0, solver)))                                               \
  S(crema_solver_set_max_iterations, (A(0, solver), 1))                                           \
  S(crema_solver_text, (A(0, solver), A(1, &made_text)))                                          \
  S(crema_group_make_id, (A(0, &group_id)))                                                       \
  S(crema_solver_join, (A(0, solver), A(1, &group_id), 0))                                        \
  S(crema_solver_broadcast, (A(0, solver)))                                                       \
  S(crema_solver_apply_update, (A(0, solver)))                                                    \
  V(crema_solver_net, 0, (A(0, solver)))                                                          \
  V(crema_solver_test_net_count, 0, (A(0, solver)))                                               \
  V(crema_solver_test_net, 0, (A(0, solver), 0))                                                  \
  S(crema_syncedmem_create, (A(0, cpu), 8, A(1, &made_memory)))                                   \
  N(crema_syncedmem_destroy, (A(0, memory)))                                                      \
  V(crema_syncedmem_head, CREMA_UNINITIALIZED, (A(0, memory)))                                    \
  V(crema_syncedmem_size, 0, (A(0, memory)))                                                      \
  S(crema_syncedmem_cpu_data, (A(0, memory), A(1, &bytes_out)))                                   \
  O(crema_syncedmem_gpu_data, "context", (A(0, memory), A(1, context), A(2, &address)))           \
  S(crema_syncedmem_mutable_cpu_data, (A(0, memory), true, A(1, &mutable_out)))                   \
  O(crema_syncedmem_mutable_gpu_data, "context",                                                  \
    (A(0, memory), A(1, context), true, A(2, &address)))                                          \
  S(crema_syncedmem_set_cpu_data, (A(0, memory), A(1, values)))                                   \
  S(crema_syncedmem_set_gpu_data, (A(0, memory), address))                                        \
  O(crema_syncedmem_async_push, "context", (A(0, memory), A(1, context)))                         \
  V(crema_shape_count, 0, (A(0, &shape), 0, 1))                                                   \
  S(crema_shape_check, (A(0, &shape)))                                                            \
  V(crema_shape_equal, false, (A(0, &shape), A(1, &shape)))                                       \
  S(crema_shape_axis, (A(0, &shape), 0, A(1, &number)))

static void drop_line(void *user, crema_log_level level, const char *file, int line,
                      const char *message) {
  (void)user;
  (void)level;
  (void)file;
  (void)line;
  (void)message;
}

#define CALL_STATUS(name, arguments) \
  static int64_t call_##name(void) { \
    return (int64_t)name arguments;  \
  }
#define CALL_VALUE(name, expected, arguments)   \
  static int64_t call_##name(void) {            \
    return (int64_t)(intptr_t)(name arguments); \
  }
#define CALL_NOTHING(name, arguments) \
  static int64_t call_##name(void) {  \
    name arguments;                   \
    return 0;                         \
  }
#define CALL_ALLOWED(name, allowed, arguments) CALL_STATUS(name, arguments)
CALLS(CALL_STATUS, CALL_VALUE, CALL_NOTHING, CALL_ALLOWED)

static int64_t call_message(void) {
  return strcmp(crema_event_message(A(0, event)), "no event");
}

static int64_t call_loss_weight(void) {
  return crema_net_blob_loss_weight(A(0, net), 0) != 0;
}

static int64_t call_base_lr(void) {
  return crema_solver_base_lr(A(0, solver)) != 0;
}

static int64_t call_rate(void) {
  return crema_solver_rate(A(0, solver)) != 0;
}

static int64_t call_shape_text(void) {
  return is_empty_text(crema_shape_text(A(0, &shape), A(1, text), sizeof text));
}

typedef struct call_row {
  const char *name;
  bool status;
  int64_t expected;    /* of a plain value */
  const char *allowed; /* names of arguments that may be NULL */
  int64_t (*call)(void);
} call_row;

#define ROW_STATUS(name, arguments) {#name, true, 0, "", call_##name},
#define ROW_VALUE(name, expected, arguments) {#name, false, expected, "", call_##name},
#define ROW_NOTHING(name, arguments) {#name, false, 0, "", call_##name},
#define ROW_ALLOWED(name, allowed, arguments) {#name, true, 0, allowed, call_##name},
static const call_row rows[] = {
    CALLS(ROW_STATUS, ROW_VALUE, ROW_NOTHING, ROW_ALLOWED){"crema_blob_memory_read", false, 0, "",
                                                           memory_read_is_zero},
    {"crema_event_message", false, 0, "", call_message},
    {"crema_net_blob_loss_weight", false, 0, "", call_loss_weight},
    {"crema_solver_base_lr", false, 0, "", call_base_lr},
    {"crema_solver_rate", false, 0, "", call_rate},
    {"crema_shape_text", false, 1, "", call_shape_text},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

/* ---- trying ---- */

static const call_row *find_row(const char *name) {
  for (int i = 0; i < ROWS; ++i) {
    if (strcmp(rows[i].name, name) == 0) return &rows[i];
  }
  return NULL;
}

static bool is_allowed(const call_row *row, const char *argument) {
  const char *found = strstr(row->allowed, argument);
  size_t size = strlen(argument);
  return found != NULL && (found == row->allowed || found[-1] == ' ') && !is_word(found[size]);
}

static void try_null(const call_row *row, const prototype *function, int pointer) {
  const char *argument = function->pointer[pointer];
  char said[2 * NAME_SIZE + 16];
  null_at = pointer;
  int64_t result = row->call();
  if (row->status && !is_allowed(row, argument)) {
    snprintf(said, sizeof said, "%s: %s is NULL", row->name, argument);
    if (result != CREMA_E_ARGUMENT || strcmp(crema_error_text(), said) != 0) {
      print_error("%s without %s: %s, '%s'\n", row->name, argument,
                  crema_status_name((crema_status)result), crema_error_text());
      fail();
    }
  } else if (!row->status && result != row->expected) {
    print_error("%s without %s: %lld\n", row->name, argument, (long long)result);
    fail();
  }
  free_made();
}

/* Tries a function that has pointers. */
static void try_function(const prototype *function, void *user) {
  int *functions = user;
  if (function->pointers == 0) return;
  ++*functions;
  const call_row *row = find_row(function->name);
  if (row == NULL) print_error("%s has no row in this test\n", function->name);
  assert_non_null(row);
  for (int i = 0; i < function->pointers; ++i) try_null(row, function, i);
}

/* ---- the objects ---- */

/* The calls are made within a layer's setup, where they may all be. */
static crema_status be_set_up(crema_layer *self) {
  int functions = 0;
  layer = self;
  each_public_function(try_function, &functions);
  layer = NULL;
  assert_int_equal(functions, ROWS); /* a row without a function would never be called */
  return CREMA_OK;
}

static crema_status be_shaped(crema_layer *self) {
  return crema_blob_reshape(crema_layer_top(self, 0), &shape);
}

static crema_status be_run(crema_layer *self) {
  (void)self;
  return CREMA_OK;
}

TEST(null_is_answered_everywhere) {
  static const char text_of_net[] = "layer { name: 'own' type: 'ArgumentTest' top: 'x' }";
  const crema_layer_type type = {.type = "ArgumentTest",
                                 .min_tops = 1,
                                 .max_tops = 1,
                                 .setup = be_set_up,
                                 .reshape = be_shaped,
                                 .forward = be_run};
  crema_net *own = NULL;
  ok(crema_layer_register(&type));
  ok(crema_net_parse(text_of_net, sizeof text_of_net - 1, "net", NULL, &own));
  crema_net_destroy(own);
}

static int make_objects(void **state) {
  static const char solver_text[] = "net_param { " NET
                                    " } base_lr: 0.1 lr_policy: 'fixed' max_iter: 1"
                                    " snapshot_after_train: false solver_mode: CPU\n";
  (void)state;
  if (mkdtemp(dir) == NULL) return 1;
  snprintf(net_path, sizeof net_path, "%s/net.prototxt", dir);
  snprintf(solver_path, sizeof solver_path, "%s/solver.prototxt", dir);
  snprintf(missing, sizeof missing, "%s/no/such/file", dir);
  ok(cr_file_write(net_path, NET, sizeof NET - 1));
  ok(cr_file_write(solver_path, solver_text, sizeof solver_text - 1));
  crema_image_options_init(&image_options);
  crema_net_options_init(&net_options);
  crema_weights_options_init(&weights_options);
  crema_model_options_init(&model_options);
  crema_onnx_options_init(&onnx_options);
  crema_solver_options_init(&solver_options);
  ok(crema_device_get(CREMA_DEVICE_CPU, 0, &cpu));
  ok(crema_context_create(cpu, 1, &context));
  ok(crema_event_create(cpu, &event));
  ok(crema_blob_create(&shape, &blob));
  ok(crema_blob_view_data(blob, &view));
  ok(crema_net_load(net_path, NULL, &net));
  ok(crema_model_load(net_path, NULL, NULL, &model));
  ok(crema_session_create(model, NULL, &session));
  ok(crema_preprocessing_create(net, 0, &preprocessing));
  ok(crema_solver_load(solver_path, NULL, &solver));
  ok(crema_syncedmem_create(cpu, sizeof values, &memory));
  return 0;
}

static int free_objects(void **state) {
  (void)state;
  crema_syncedmem_destroy(memory);
  crema_solver_destroy(solver);
  crema_preprocessing_destroy(preprocessing);
  crema_session_destroy(session);
  crema_model_destroy(model);
  crema_net_destroy(net);
  crema_view_release(view);
  crema_blob_destroy(blob);
  crema_event_destroy(event);
  crema_context_destroy(context);
  unlink(solver_path);
  unlink(net_path);
  return rmdir(dir);
}

int main(void) {
  return run_all_tests(make_objects, free_objects);
}
