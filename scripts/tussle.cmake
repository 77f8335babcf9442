# Compiles the targets that come after it so that `tussle record` can record them: include(tussle), then
# cmake -DTUSSLE=ON. Off, it changes nothing.

option(TUSSLE "Compile so that the program can be recorded by tussle" OFF)

if(TUSSLE)
  if(CMAKE_VERSION VERSION_LESS 3.21)
    message(FATAL_ERROR "TUSSLE=ON needs cmake 3.21 or newer; or set CC='tussle cc' CXX='tussle c++'")
  endif()
  find_program(TUSSLE_PROGRAM tussle REQUIRED)
  foreach(tussle_language IN ITEMS C CXX)
    if(tussle_language STREQUAL "C")
      set(tussle_verb cc)
    else()
      set(tussle_verb c++)
    endif()
    set(CMAKE_${tussle_language}_COMPILER_LAUNCHER "${TUSSLE_PROGRAM};${tussle_verb};--as")
    set(CMAKE_${tussle_language}_LINKER_LAUNCHER "${TUSSLE_PROGRAM};${tussle_verb};--as")
  endforeach()
endif()
