# docs/dev/add-a-layer.md, followed to the letter on a copy of the source: the new and the changed files compile; a
# long test builds the library with them and runs the tests of layers.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME layers/add_a_layer COMMAND ${Python3_EXECUTABLE}
  ${CMAKE_CURRENT_LIST_DIR}/add_a_layer.py ${PROJECT_SOURCE_DIR} ${CMAKE_COMMAND}
  ${CMAKE_C_COMPILER} compile)
add_test(NAME layers/add_a_layer_runs COMMAND ${Python3_EXECUTABLE}
  ${CMAKE_CURRENT_LIST_DIR}/add_a_layer.py ${PROJECT_SOURCE_DIR} ${CMAKE_COMMAND}
  ${CMAKE_C_COMPILER} run)
set_tests_properties(layers/add_a_layer_runs PROPERTIES TIMEOUT 600)
# Shared objects find the library's functions in the program that opens them.
set_target_properties(test_layers_custom_layer PROPERTIES ENABLE_EXPORTS ON)
add_dependencies(test_layers_custom_layer example_plugin)
