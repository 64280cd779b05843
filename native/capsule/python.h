// Where in a Python program this thread is.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace warpsight {

// Innermost first, as "function (file:line)"; null without Python frames, or where they cannot be read. Looks
// for the interpreter at its first call.
using PythonStack = std::shared_ptr<const std::vector<std::string>>;
PythonStack python_stack();

}  // namespace warpsight
