# Every library that crema is built on (docs/dev/architecture.md says what for), each
# as one imported target.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(PNG REQUIRED)
find_package(ZLIB REQUIRED)
pkg_check_modules(PROTOBUF_C REQUIRED IMPORTED_TARGET libprotobuf-c)
pkg_check_modules(LMDB REQUIRED IMPORTED_TARGET lmdb)
# Debian's LevelDB has no pkg-config file.
find_library(LEVELDB_LIBRARY leveldb REQUIRED)
find_path(LEVELDB_INCLUDE_DIR leveldb/c.h REQUIRED)
add_library(crema_leveldb INTERFACE)
target_include_directories(crema_leveldb SYSTEM INTERFACE ${LEVELDB_INCLUDE_DIR})
# Its C++ interface is called from one file; everything is linked by the C compiler.
target_link_libraries(crema_leveldb INTERFACE ${LEVELDB_LIBRARY} stdc++)
pkg_check_modules(TURBOJPEG REQUIRED IMPORTED_TARGET libturbojpeg)
pkg_check_modules(LIBJPEG REQUIRED IMPORTED_TARGET libjpeg)
# The command only.
pkg_check_modules(EXPAT REQUIRED IMPORTED_TARGET expat)
pkg_check_modules(CAIRO REQUIRED cairo)
pkg_check_modules(TIFF REQUIRED IMPORTED_TARGET libtiff-4>=4.5)
pkg_check_modules(WEBP REQUIRED IMPORTED_TARGET libwebp)
find_package(GIF REQUIRED)
# The second name is Debian's where no `update-alternatives` has run.
pkg_search_module(HDF5 REQUIRED IMPORTED_TARGET hdf5 hdf5-serial)
find_program(PROTOC_C protoc-c REQUIRED)

find_library(DNNL_LIBRARY dnnl REQUIRED)
find_path(DNNL_INCLUDE_DIR dnnl.h REQUIRED)
add_library(crema_dnnl INTERFACE)
target_include_directories(crema_dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(crema_dnnl INTERFACE ${DNNL_LIBRARY})

if(CREMA_OPENMP)
  find_package(OpenMP REQUIRED COMPONENTS C)
endif()
