# AMD's GPUs, through rocprofiler-sdk, whose declarations stand here: nothing of ROCm is needed to build.
set(HIP_FUNCTIONS ${PLUGINS}/rocm/hip_functions.txt)
add_custom_command(
  OUTPUT ${GENERATED}/hip_functions.h
  COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/generate_functions.py ${HIP_FUNCTIONS} ${GENERATED}/hip_functions.h
  DEPENDS ${HIP_FUNCTIONS} ${CMAKE_CURRENT_LIST_DIR}/generate_functions.py)
file(GLOB found CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
list(APPEND SOURCES ${found} ${GENERATED}/hip_functions.h)
list(APPEND ENTRIES rocprofiler_configure)
