#include <string.h>

#include "cli.h"
#include "core/log.h"
#include "net/weights/weights.h"

static bool choose_type(const char *name, crema_dtype *out) {
  static const char *const words[] = {"FLOAT16", "BFLOAT16", "FLOAT", "DOUBLE"};
  static const crema_dtype types[] = {CREMA_F16, CREMA_BF16, CREMA_F32, CREMA_F64};
  const int found = cli_find_word("-to", name, words, 4);
  if (found >= 0) *out = types[found];
  return found >= 0;
}

static void report(const cr_convert_report *r, const char *path) {
  cr_log_info("Wrote %s: %llu blobs, %llu values", path, (unsigned long long)r->blobs,
              (unsigned long long)r->values);
  cr_log_info("%llu values overflowed to infinity, %llu became 0", (unsigned long long)r->infinite,
              (unsigned long long)r->zero);
  cr_log_info("Largest relative error of all other values: %.3g", r->worst);
  if (r->kept > 0) {
    cr_log_warning("%llu blobs of integers are as they were", (unsigned long long)r->kept);
  }
  if (r->infinite > 0) {
    cr_log_warning("%s has values that are not finite; BFLOAT16 has the range of FLOAT", path);
  }
}

int crema_cmd_convert_model(int argc, char **argv) {
  const char *to = "";
  bool old_format = false;
  const cli_flag flags[] = {
      {"to", CLI_WORD, &to, "the type of the new file's values: FLOAT16, BFLOAT16, FLOAT, DOUBLE"},
      {"old_format", CLI_BOOL, &old_format,
       "store them in fields that every Caffe reads: 16-bit types rounded, but as floats"},
  };
  const cli_spec spec = {
      .command = "convert_model",
      .arguments = "MODEL_IN MODEL_OUT",
      .required = {"to"},
      .min_arguments = 2,
      .max_arguments = 2,
      .help =
          "Changes the type of the weights in a binary model (.caffemodel) of any Caffe, and "
          "reports\n"
          "overflows and the largest relative error of a value. The rest of the file stays as it "
          "is.\n"
          "Values of 16 bits are stored as bytes with their type. NVIDIA's Caffe and crema read\n"
          "FLOAT16; every Caffe reads FLOAT.\n\n"
          "Example:\n"
          "  crema convert_model -to FLOAT16 lenet.caffemodel lenet_f16.caffemodel\n",
      .flags = flags,
      .flag_count = sizeof flags / sizeof *flags};
  int exit_code;
  crema_dtype type = CREMA_F32;
  cr_convert_report result;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  if (!choose_type(to, &type)) return 1;
  size_t length = strlen(argv[2]);
  if (length >= 3 && strcmp(argv[2] + length - 3, ".h5") == 0) {
    return cli_usage_error(
        "convert_model: %s would be taken for HDF5, but binary models are written", argv[2]);
  }
  if (cr_model_convert(argv[1], argv[2], type, old_format, &result) != CREMA_OK) return cli_fail();
  report(&result, argv[2]);
  return 0;
}
