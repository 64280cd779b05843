// The Python interpreter of another process, found from outside.
#pragma once

#include <sys/types.h>

#include "stacks/memory.h"
#include "stacks/python_layout.h"

namespace warpsight {

struct RemotePython {
  PythonLayout layout;
  uint64_t runtime;  // addresses in that process
  uint64_t code_type;
};

// False when the process has no CPython that we can read, is gone, or may not be read by us.
bool find_remote_python(pid_t pid, RemoteMemory* memory, RemotePython* python);

}  // namespace warpsight
