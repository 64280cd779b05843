// Descriptors of ours in a program that may close, reuse or count on its own.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace warpsight {

// Moves a newly opened descriptor to a high number; the same one if there is none. Never to one of the
// standard three: a program started without them must not find them open.
inline int out_of_the_way(int low) {
  if (low < 0) return -1;
  rlimit limit;
  const bool few = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur <= 500;
  const int first = !few ? 500 : limit.rlim_cur > 16 ? static_cast<int>(limit.rlim_cur) - 8 : 3;
  int high = fcntl(low, F_DUPFD_CLOEXEC, first);
  if (high < 0 && low < 3) high = fcntl(low, F_DUPFD_CLOEXEC, 3);
  if (high < 0 && low >= 3) return low;
  close(low);
  return high;
}

}  // namespace warpsight
