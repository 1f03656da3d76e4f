# Writes the device functions as lines of C strings for src/device/opencl/opencl_program.c: cmake -D ROOT=src
# -D "FILES=a|b" -D OUT=FILE -P embed_opencl.cmake. Each file comes once, after the files that it includes.
cmake_minimum_required(VERSION 3.22)
set(done)
set(text)

# The text that includes name a file's headers first.
macro(add_file name)
  if(NOT "${name}" IN_LIST done)
    list(APPEND done ${name})
    file(READ ${ROOT}/${name} body_${name})
    string(REGEX MATCHALL "#include \"device/[a-z_/]+\\.h\"" includes_${name} "${body_${name}}")
    foreach(include_line ${includes_${name}})
      string(REGEX REPLACE "#include \"(.*)\"" "\\1" included "${include_line}")
      add_file(${included})
    endforeach()
    string(REGEX REPLACE "#include [^\n]*\n" "" body_${name} "${body_${name}}")
    string(APPEND text "${body_${name}}")
  endif()
endmacro()

string(REPLACE "|" ";" FILES "${FILES}")
foreach(file ${FILES})
  add_file(${file})
endforeach()
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REGEX REPLACE "([^\n]*)\n" "\"\\1\\\\n\",\n" text "${text}")
file(WRITE ${OUT} "${text}")
