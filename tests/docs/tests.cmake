# The documents: what they say is tested.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
foreach(name boxes photos)
  add_executable(docs_${name} ${CMAKE_CURRENT_SOURCE_DIR}/docs/${name}.c)
  target_link_libraries(docs_${name} PRIVATE crema_internal PkgConfig::CMOCKA)
  target_include_directories(docs_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  set_target_properties(docs_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
endforeach()
target_sources(docs_boxes PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/data/fixture.c)
add_test(NAME docs/layers COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/layers.py
  $<TARGET_FILE:crema_cli> $<TARGET_FILE:docs_boxes>)
add_test(NAME docs/run_layers COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/run_layers.py
  $<TARGET_FILE:crema_cli>)
add_test(NAME docs/environment_variables COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/environment.py
  $<TARGET_FILE:crema_cli>)
add_test(NAME docs/manual COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/manual.py)
set_tests_properties(docs/manual PROPERTIES SKIP_RETURN_CODE 77)
add_test(NAME docs/models_page COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/models_page.py
  $<TARGET_FILE:crema_cli> --check)
add_test(NAME docs/inside_diagrams
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/inside_svg.py --check)
add_test(NAME docs/onnx_tables COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/onnx_tables.py)
add_test(NAME docs/inside_names COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/inside_names.py)
# Each document with blocks of commands is followed; its photos are cut out of the only one in the tree.
file(GLOB_RECURSE documents CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/docs/*.md
  ${PROJECT_SOURCE_DIR}/README.md)
list(REMOVE_ITEM documents docs/dev/add-a-layer.md) # tests/layers follows it
foreach(document ${documents})
  file(STRINGS ${PROJECT_SOURCE_DIR}/${document} blocks REGEX "^```(sh|python|console|message)$")
  if(blocks)
    string(REGEX REPLACE "^docs/|[.]md$" "" name ${document})
    add_test(NAME docs/${name} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/run_document.py
      ${PROJECT_SOURCE_DIR}/${document} $<TARGET_FILE:crema_cli> $<TARGET_FILE:docs_photos>
      ${PROJECT_SOURCE_DIR}/examples/images/cat.jpg)
    # Lack of memory is a status under the sanitizers as well.
    set_tests_properties(docs/${name} PROPERTIES TIMEOUT 300 ENVIRONMENT
      "ASAN_OPTIONS=allocator_may_return_null=1")
  endif()
endforeach()
