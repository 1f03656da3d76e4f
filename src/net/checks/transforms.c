/* Warns about transformations in the parameters of data layers. Caffe moves them to transform_param
 * in layers of the second format only. */
#include "core/log.h"
#include "net/checks/checks.h"
#include "net/common/fail.h"
#include "proto/field.h"

static void warn_of_fields(const crema_net *net, int index, const ProtobufCMessage *param,
                           const char *place) {
  static const char *const names[] = {"scale", "mean_file", "crop_size", "mirror"};
  const cr_layer *self = net->layer[index].layer;
  char line[CR_NET_LINE_TEXT];
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(param->descriptor, names[i]);
    if (field == NULL || cr_field_count(param, field) == 0) continue;
    cr_log_warning("layer '%s' (%s)%s: %s of %s has no effect; it belongs into transform_param",
                   self->name, self->kind->type, cr_net_line_text(net, (size_t)index, line),
                   names[i], place);
  }
}

void cr_net_warn_of_transforms(const crema_net *net) {
  for (int i = 0; i < net->layers; ++i) {
    const Caffe__LayerParameter *param = net->param->layer[i];
    if (param->data_param != NULL) {
      warn_of_fields(net, i, &param->data_param->base, "data_param");
    }
    if (param->image_data_param != NULL) {
      warn_of_fields(net, i, &param->image_data_param->base, "image_data_param");
    }
    if (param->window_data_param != NULL) {
      warn_of_fields(net, i, &param->window_data_param->base, "window_data_param");
    }
  }
}
