# docs/add-a-layer.md, followed to the letter on a copy of the source.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME layers/add_a_layer COMMAND ${Python3_EXECUTABLE}
  ${CMAKE_CURRENT_LIST_DIR}/add_a_layer.py ${PROJECT_SOURCE_DIR} ${CMAKE_COMMAND}
  ${CMAKE_C_COMPILER})
set_tests_properties(layers/add_a_layer PROPERTIES TIMEOUT 600)
# Shared objects find the library's functions in the program that opens them.
set_target_properties(test_layers_custom_layer PROPERTIES ENABLE_EXPORTS ON)
add_dependencies(test_layers_custom_layer example_plugin)
