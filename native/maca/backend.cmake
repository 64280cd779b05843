# MetaX' GPUs, through MCPTI, whose records are CUPTI's: built where the CUDA recorder is.
if(WITH_CUDA)
  file(GLOB found CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
  list(APPEND SOURCES ${found})
  list(APPEND PRELOADS maca)
endif()
