# Tests of the command: scripts that get the command and the source folder.
file(GLOB cli_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/test_*.sh)
foreach(script ${cli_tests})
  get_filename_component(name ${script} NAME_WE)
  string(REGEX REPLACE "^test_" "" name ${name})
  add_test(NAME cli/${name}
    COMMAND ${script} $<TARGET_FILE:crema_cli> ${PROJECT_SOURCE_DIR})
  # 77: what the script needs is not on this machine; it says so, and is reported as skipped.
  set_tests_properties(cli/${name} PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77)
endforeach()
# Fontconfig, which cairo uses, keeps its tables until the process ends.
set_tests_properties(cli/plot PROPERTIES ENVIRONMENT
  "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/fuzz/leaks.supp:print_suppressions=0")
