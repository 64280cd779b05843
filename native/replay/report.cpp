#include "replay/report.h"

#include <cstdarg>
#include <string>

namespace warpsight::replay {

bool Report::open(const char* folder) {
  file_ = fopen((std::string(folder) + "/results").c_str(), "we");
  return file_ != nullptr;
}

void Report::line(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(file_, format, arguments);
  va_end(arguments);
  fputc('\n', file_);
  fflush(file_);  // a kernel may end the process
}

bool Report::check(const Driver& driver, CUresult result, const char* what, long long operation) {
  if (result == CUDA_SUCCESS) return true;
  const char* name = nullptr;
  if (driver.error_name == nullptr || driver.error_name(result, &name) != CUDA_SUCCESS) name = "an error";
  line("failed %lld %s %s", operation, name, what);
  return false;
}

bool Report::taken(unsigned long long address, const char* by) {
  line("taken 0x%llx %s", address, by);
  taken_ = true;
  return false;
}

}  // namespace warpsight::replay
