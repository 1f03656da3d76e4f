/* The table of names. */
#include "core/name_map.h"

#include "net_case.h"

TEST(names_are_found_again) {
  enum { NAMES = 5000 };
  static char name[NAMES][16];
  cr_name_map map = {0};
  assert_int_equal(cr_name_map_get(&map, "n0"), -1);
  for (int i = 0; i < NAMES; ++i) {
    snprintf(name[i], sizeof name[i], "n%d", i);
    ok(cr_name_map_set(&map, name[i], i));
  }
  for (int i = 0; i < NAMES; ++i) assert_int_equal(cr_name_map_get(&map, name[i]), i);
  ok(cr_name_map_set(&map, "n17", 3));
  assert_int_equal(cr_name_map_get(&map, "n17"), 3);
  assert_int_equal(map.size, NAMES);
  assert_int_equal(cr_name_map_get(&map, "absent"), -1);
  assert_int_equal(cr_name_map_get(&map, ""), -1);
  cr_name_map_free(&map);
  assert_int_equal(cr_name_map_get(&map, "n17"), -1);
  assert_null(cr_name_map_nearest(&map, "n17"));
}

TEST(the_nearest_name_is_offered) {
  cr_name_map map = {0};
  ok(cr_name_map_set(&map, "label", 0));
  ok(cr_name_map_set(&map, "data", 1));
  assert_string_equal(cr_name_map_nearest(&map, "lable"), "label");
  assert_null(cr_name_map_nearest(&map, "xyzzy"));
  cr_name_map_free(&map);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
