#include "capsule/python.h"

#include <dlfcn.h>
#include <unistd.h>

#include "stacks/code_table.h"
#include "stacks/remote_python.h"

namespace warpsight {
namespace {

constexpr uint32_t kMostFrames = 24;

struct Python {
  bool readable = false;
  RemotePython layout;
  void* (*thread_state)() = nullptr;
  int (*alive)() = nullptr;
};

const Python& python() {
  static const Python* const found = [] {  // never destroyed: calls come until the process ends
    auto* const made = new Python;
    RemoteMemory memory(getpid());
    made->thread_state = reinterpret_cast<void* (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState"));
    made->alive = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "Py_IsInitialized"));
    made->readable = made->thread_state != nullptr && made->alive != nullptr &&
                     find_remote_python(getpid(), &memory, &made->layout);
    return made;
  }();
  return *found;
}

// "function (file:line)"; "" for anything but code.
std::string told(const RemotePython& python, RemoteMemory& memory, const Place& place) {
  const PythonLayout& o = python.layout;
  uint64_t type = 0, name = 0, file = 0, table = 0;
  Code code = {};
  std::string function, path;
  if (!load(memory, place.code + o.object_type, &type) || type != python.code_type ||
      !load(memory, place.code + o.code_qualname, &name) ||
      !load(memory, place.code + o.code_filename, &file) ||
      !load(memory, place.code + o.code_linetable, &table) ||
      !load(memory, place.code + o.code_firstline, &code.first_line) ||
      !read_text(o, memory, name, &function) || !read_text(o, memory, file, &path) ||
      !read_line_table(o, memory, table, &code.line_table))
    return "";
  return function + " (" + path + ":" + std::to_string(line_of(o, memory, place, code)) + ")";
}

}  // namespace

PythonStack python_stack() {
  const Python& found = python();
  if (!found.readable || found.alive() == 0) return nullptr;
  const auto state = reinterpret_cast<uint64_t>(found.thread_state());
  RemoteMemory memory(getpid());  // survives addresses that mean something else
  Place places[kMostFrames];
  Chain chain = {places, 0, false, 0};
  uint64_t frame = 0;
  if (state == 0 || !innermost_frame(found.layout.layout, memory, state, &frame) ||
      !walk_frames(found.layout.layout, memory, frame, kMostFrames, false, &chain))
    return nullptr;
  auto stack = std::make_shared<std::vector<std::string>>();
  for (uint32_t i = 0; i < chain.count; ++i) {
    std::string one = told(found.layout, memory, places[i]);
    if (!one.empty()) stack->push_back(std::move(one));
  }
  return stack;
}

}  // namespace warpsight
