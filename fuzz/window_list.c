/* Window files of any bytes. */
#include "data/pipeline/window_list.h"
#include "support/support.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  cr_window_list list = {0};
  crema_status status = cr_window_list_read(fuzz_file("windows.txt", data, size), &list);
  fuzz_require_text(status);
  for (size_t i = 0; status == CREMA_OK && i < cr_window_list_windows(&list); ++i) {
    const cr_listed_window *window = cr_window_list_window(&list, i);
    fuzz_require(window->image < cr_window_list_images(&list));
    fuzz_require(cr_window_list_image(&list, window->image)->name[0] != '\0');
  }
  cr_window_list_free(&list);
  return 0;
}
