/* Failures that name the layer, the blob, and the file and line of the net's text. */
#ifndef CR_NET_COMMON_FAIL_H
#define CR_NET_COMMON_FAIL_H

#include "net/common/net_struct.h"

/* A failure in a layer, or with one of its blobs. */
crema_status cr_net_fail_layer(const Caffe__LayerParameter *param, crema_status code,
                               const char *fmt, ...) CREMA_PRINTF(3, 4);
crema_status cr_net_fail_blob(const Caffe__LayerParameter *param, const char *blob,
                              crema_status code, const char *fmt, ...) CREMA_PRINTF(4, 5);

/* Adds the layer to a failure that is passed on, unless it names one already. */
crema_status cr_net_fail_in_layer(const Caffe__LayerParameter *param, crema_status code);

/* Has crema_error_layer name the layer of a failure whose text names it already. */
crema_status cr_net_blame_layer(const cr_layer *layer, crema_status code);

/* Appends the names and shapes of a layer's bottoms to CREMA_E_SHAPE if there are two or more. */
crema_status cr_net_show_bottoms(const crema_net *net, int index, crema_status code);

/* Adds the layer to a failure in a pass. For crema_error_file and crema_error_line it adds the
 * layer's place in the net's file, unless the failure already names a file. */
crema_status cr_net_fail_in_pass(const crema_net *net, int index, crema_status code);

/* The line on which layer `index` of net->param begins; 0 if unknown. */
size_t cr_net_layer_line(const crema_net *net, size_t index);

/* " (line 12)" for a layer whose line is known, "" otherwise; returns `text`. */
enum { CR_NET_LINE_TEXT = 32 };
const char *cr_net_line_text(const crema_net *net, size_t index, char text[CR_NET_LINE_TEXT]);

/* A text field that may be missing. */
const char *cr_net_text(const char *text);

/* Adds the net's file to a failure while the net is built, and the line of the layer it names. */
crema_status cr_net_fail_in_file(const crema_net *net, crema_status code);

/* An array of `count` elements of `width` bytes, all zero, that lives as long as the arena. Sets
 * *(void **)out. */
crema_status cr_net_allocate(cr_arena *arena, void *out, size_t count, size_t width) CREMA_MUST_USE;

/* As above, for an array of the type that `pointer` points to. `owner` has the arena. */
#define CR_NET_NEW(owner, pointer, count) \
  cr_net_allocate(&(owner)->arena, &(pointer), (size_t)(count), sizeof *(pointer))

#endif
