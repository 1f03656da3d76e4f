/* Lists of images, as files of any bytes. */
#include <string.h>

#include "data/pipeline/image_list.h"
#include "support/support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  cr_image_list list = {0};
  crema_status status = cr_image_list_read(fuzz_file("list.txt", data, size), &list);
  fuzz_require_text(status);
  if (status == CREMA_OK) fuzz_require(list.count > 0);
  for (size_t i = 0; status == CREMA_OK && i < list.count; ++i) {
    fuzz_require(list.entry[i].name[0] != '\0' && strchr(list.entry[i].name, '\n') == NULL);
    fuzz_require(i == 0 || list.entry[i].line > list.entry[i - 1].line);
  }
  cr_image_list_free(&list);
  return 0;
}
