# Each example, shortened: example.sh CREMA SOURCE_DIR NAME [docs_photos]
foreach(name mnist cifar10 char_lstm fine_tuning detection faster_rcnn segmentation volumes)
  add_test(NAME examples/${name}
    COMMAND ${CMAKE_CURRENT_LIST_DIR}/example.sh $<TARGET_FILE:crema_cli> ${PROJECT_SOURCE_DIR} ${name}
      $<TARGET_FILE:docs_photos>)
  set_tests_properties(examples/${name} PROPERTIES TIMEOUT 600)
endforeach()
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME examples/datasets COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/datasets.py
  $<TARGET_FILE:crema_cli> ${PROJECT_SOURCE_DIR})
