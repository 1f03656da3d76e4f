# make install: libraries, headers, the command under both names, pkg-config file.
include(GNUInstallDirs)
install(TARGETS crema_shared crema_static crema_hdf5 crema_cli
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/crema DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
# The link is made here, so that the list of installed files has it too. A project that contains this one may have
# its own `caffe`.
if(CMAKE_SOURCE_DIR STREQUAL PROJECT_SOURCE_DIR)
  file(CREATE_LINK crema ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/caffe SYMBOLIC)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/caffe DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
file(RELATIVE_PATH CREMA_PC_TO_PREFIX
  ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
# By name: who links the static library need not do so with the compiler that made it.
if(CREMA_OPENMP)
  foreach(name ${OpenMP_C_LIB_NAMES})
    if(name STREQUAL "gomp")
      string(APPEND CREMA_PC_OPENMP " -lgomp")
    elseif(NOT name STREQUAL "pthread")
      string(APPEND CREMA_PC_OPENMP " ${OpenMP_${name}_LIBRARY}")
    endif()
  endforeach()
endif()
configure_file(cmake/crema.pc.in crema.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/crema.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
# `crema classify` without flags looks for its model here.
install(DIRECTORY models/squeezenet_v1.0 DESTINATION ${CMAKE_INSTALL_DATADIR}/crema/models
  PATTERN "reference.h5" EXCLUDE)
# The loader finds a new library in /usr/local/lib only after this; it fails quietly without root.
install(CODE "if(\"\$ENV{DESTDIR}\" STREQUAL \"\")
  execute_process(COMMAND ldconfig OUTPUT_QUIET ERROR_QUIET RESULT_VARIABLE ignored)
endif()")
