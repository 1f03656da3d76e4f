# Every field of every dialect is read, or said to have no effect, or refused.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME proto/fields COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/fields.py
  $<TARGET_FILE:crema_cli>)
