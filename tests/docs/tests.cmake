# The documents: what they say is tried.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_executable(docs_boxes ${CMAKE_CURRENT_SOURCE_DIR}/docs/boxes.c
  ${CMAKE_CURRENT_SOURCE_DIR}/data/fixture.c)
target_link_libraries(docs_boxes PRIVATE crema_internal PkgConfig::CMOCKA)
target_include_directories(docs_boxes PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
set_target_properties(docs_boxes PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
add_test(NAME docs/layers COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/layers.py
  $<TARGET_FILE:crema_cli> $<TARGET_FILE:docs_boxes>)
add_test(NAME docs/manual COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/manual.py)
set_tests_properties(docs/manual PROPERTIES SKIP_RETURN_CODE 77)
