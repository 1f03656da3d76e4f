/* Net and solver files of older formats to today's: upgrade_net_proto_text,
 * upgrade_net_proto_binary, upgrade_solver_proto_text. */
#include "cli.h"
#include "core/log.h"
#include "net/net.h"

typedef crema_status (*write_fn)(const ProtobufCMessage *message, const char *path);

/* Upgrades `message`, which was read from argv[1], writes it to argv[2] and frees it. Returns the
 * exit code: 1 as well when the result is written but fields had to be dropped. */
static int finish_net(ProtobufCMessage *message, char **argv, write_fn write) {
  const char *path = argv[2];
  Caffe__NetParameter *net = (Caffe__NetParameter *)message;
  bool compatible = true;
  if (!cr_net_param_needs_upgrade(net)) cr_log_info("%s is in today's format already", argv[1]);
  crema_status status = cr_net_param_upgrade(net, argv[1], &compatible);
  if (status == CREMA_OK) status = write(message, path);
  cr_message_free(message);
  if (status != CREMA_OK) return cli_fail();
  cr_log_info("Wrote the upgraded net to %s", path);
  if (!compatible) {
    return cli_error("%s is written, but some fields had no place in it and were dropped", path);
  }
  return 0;
}

int crema_cmd_upgrade_net_proto_text(int argc, char **argv) {
  bool warn_unknown_fields = false;
  const cli_flag flags[] = {
      {"warn_unknown_fields", CLI_BOOL, &warn_unknown_fields,
       "only warn about fields that the schema does not know"},
  };
  const cli_spec spec = {
      .command = "upgrade_net_proto_text",
      .arguments = "NET_IN NET_OUT",
      .min_arguments = 2,
      .max_arguments = 2,
      .help =
          "Reads a net in text form (.prototxt) of any format Caffe has had and writes it in\n"
          "today's: \"layers\" and the flat layers before them become \"layer\", \"input\" fields\n"
          "become an Input layer, transformation fields of data layers become transform_param.\n"
          "The exit code is 1, with the file written, when a field had to be dropped.\n\n"
          "Example:\n"
          "  crema upgrade_net_proto_text old.prototxt new.prototxt\n",
      .flags = flags,
      .flag_count = sizeof flags / sizeof *flags};
  int exit_code;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  cr_unknown_fields unknown = warn_unknown_fields ? CR_UNKNOWN_WARN : CR_UNKNOWN_ERROR;
  ProtobufCMessage *message;
  if (cr_net_blame_type(cr_message_read_text(&caffe__net_parameter__descriptor, argv[1], unknown,
                                             &message)) != CREMA_OK) {
    return cli_fail();
  }
  return finish_net(message, argv, cr_message_write_text);
}

int crema_cmd_upgrade_net_proto_binary(int argc, char **argv) {
  const cli_spec spec = {
      .command = "upgrade_net_proto_binary",
      .arguments = "NET_IN NET_OUT",
      .min_arguments = 2,
      .max_arguments = 2,
      .help =
          "Reads a net in binary form (.caffemodel) of any format Caffe has had and writes it\n"
          "in today's, weights included. The exit code is 1, with the file written, when a\n"
          "field had to be dropped.\n\n"
          "Example:\n"
          "  crema upgrade_net_proto_binary old.caffemodel new.caffemodel\n"};
  int exit_code;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  ProtobufCMessage *message;
  if (cr_message_read_binary(&caffe__net_parameter__descriptor, argv[1], &message) != CREMA_OK) {
    return cli_fail();
  }
  return finish_net(message, argv, cr_message_write_binary);
}

int crema_cmd_upgrade_solver_proto_text(int argc, char **argv) {
  bool warn_unknown_fields = false;
  const cli_flag flags[] = {
      {"warn_unknown_fields", CLI_BOOL, &warn_unknown_fields,
       "only warn about fields that the schema does not know"},
  };
  const cli_spec spec = {
      .command = "upgrade_solver_proto_text",
      .arguments = "SOLVER_IN SOLVER_OUT",
      .min_arguments = 2,
      .max_arguments = 2,
      .help =
          "Reads a solver file and writes it in today's format: solver_type, a number, becomes\n"
          "type, a name; nets inside are upgraded too.\n\n"
          "Example:\n"
          "  crema upgrade_solver_proto_text old_solver.prototxt solver.prototxt\n",
      .flags = flags,
      .flag_count = sizeof flags / sizeof *flags};
  int exit_code;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  cr_unknown_fields unknown = warn_unknown_fields ? CR_UNKNOWN_WARN : CR_UNKNOWN_ERROR;
  ProtobufCMessage *message;
  if (cr_net_blame_type(cr_message_read_text(&caffe__solver_parameter__descriptor, argv[1], unknown,
                                             &message)) != CREMA_OK) {
    return cli_fail();
  }
  crema_status status = cr_solver_param_upgrade((Caffe__SolverParameter *)message, argv[1]);
  if (status == CREMA_OK) status = cr_message_write_text(message, argv[2]);
  cr_message_free(message);
  if (status != CREMA_OK) return cli_fail();
  cr_log_info("Wrote the upgraded solver to %s", argv[2]);
  return 0;
}
