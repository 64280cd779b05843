#include "stacks/interpreter.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

#include "ring/hot.h"
#include "ring/lock.h"
#include "runtime/runtime.h"
#include "stacks/code_table.h"

namespace warpsight {

alignas(64) WARPSIGHT_HOT_DATA Interpreter g_interpreter = {};

namespace {

SpinLock g_find_lock;  // protects g_interpreter while it is filled in

// An embedding program may have loaded libpython without making its symbols global.
int note_libpython(dl_phdr_info* module, size_t, void* path) {
  if (!module->dlpi_name || !strstr(module->dlpi_name, "libpython3")) return 0;
  *static_cast<std::string*>(path) = module->dlpi_name;
  return 1;
}

bool find_library(void** library) {
  *library = RTLD_DEFAULT;
  if (dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState")) return true;
  std::string path;
  dl_iterate_phdr(note_libpython, &path);
  *library = path.empty() ? nullptr : dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  return *library != nullptr;
}

// The minor version, 0 when it is not CPython 3.
uint32_t python_minor(void* library) {
  if (const void* version = dlsym(library, "Py_Version")) {
    unsigned long hex;
    memcpy(&hex, version, sizeof(hex));
    return hex >> 24 == 3 ? hex >> 16 & 255 : 0;
  }
  const auto text = reinterpret_cast<const char* (*)()>(dlsym(library, "Py_GetVersion"));
  if (!text || strncmp(text(), "3.", 2) != 0) return 0;
  return static_cast<uint32_t>(atoi(text() + 2));
}

void refuse(const char* cause) {
  g_interpreter.state.store(Interpreter::State::refused, std::memory_order_release);
  report_loss("python stacks", cause);
}

// True when every frame of the chain runs a code object whose names can be read.
bool frames_are_code(RemoteMemory& memory, const Chain& chain) {
  const PythonLayout& o = g_interpreter.layout;
  std::string text;
  for (uint32_t i = 0; i < chain.count; ++i) {
    const uint64_t code = chain.places[i].code;
    uint64_t type, name, file;
    if (!load(memory, code + o.object_type, &type) || type != g_interpreter.code_type) return false;
    if (!load(memory, code + o.code_qualname, &name) || !load(memory, code + o.code_filename, &file))
      return false;
    if (!read_text(o, memory, name, &text) || !read_text(o, memory, file, &text)) return false;
  }
  return true;
}

}  // namespace

bool check_interpreter() {
  Interpreter& python = g_interpreter;
  const Interpreter::State state = python.now();
  if (state != Interpreter::State::pending) return state == Interpreter::State::ready;
  const uint64_t thread_state = own_thread_state(python);
  if (!thread_state) return false;
  RemoteMemory memory(getpid());
  uint64_t probe = 0;
  if (!memory.copy_now(reinterpret_cast<uint64_t>(&thread_state), &probe, sizeof(probe))) {
    // A sandbox forbids the careful reads; the version has to do.
    python.state.store(Interpreter::State::ready, std::memory_order_release);
    return true;
  }
  Place places[16];
  Chain chain = {places, 0, false, 0};
  uint64_t frame = 0;
  if (!innermost_frame(python.layout, memory, thread_state, &frame)) {
    refuse(
        "the interpreter's frames are not laid out as in its version of CPython; no Python stacks are taken");
    return false;
  }
  if (frame == 0) return false;  // nothing to check against yet
  if (!walk_frames(python.layout, memory, frame, 16, false, &chain) || !frames_are_code(memory, chain)) {
    refuse(
        "the interpreter's frames are not laid out as in its version of CPython; no Python stacks are taken");
    return false;
  }
  if (chain.count) python.state.store(Interpreter::State::ready, std::memory_order_release);
  return chain.count != 0;
}

void find_interpreter() {
  LockGuard guard(g_find_lock);
  Interpreter& python = g_interpreter;
  if (python.now() == Interpreter::State::absent) {
    void* library;
    if (!find_library(&library)) return;
    const uint32_t minor = python_minor(library);
    if (!minor) return;
    python.thread_state = reinterpret_cast<void* (*)()>(dlsym(library, "PyGILState_GetThisThreadState"));
    python.runtime = reinterpret_cast<uint64_t>(dlsym(library, "_PyRuntime"));
    python.code_type = reinterpret_cast<uint64_t>(dlsym(library, "PyCode_Type"));
    python.evaluator = reinterpret_cast<uint64_t>(dlsym(library, "_PyEval_EvalFrameDefault"));
    if (!python.thread_state || !python.runtime || !python.code_type) {
      refuse("the interpreter does not export what a stack walk needs; no Python stacks are taken");
      return;
    }
    const char* problem =
        python_layout(minor, reinterpret_cast<const uint8_t*>(python.runtime), &python.layout);
    if (problem) {
      refuse((std::string(problem) + "; no Python stacks are taken").c_str());
      return;
    }
    python.finalizing = python.runtime + python.layout.finalizing;
    python.state.store(Interpreter::State::pending, std::memory_order_release);
  }
  check_interpreter();
}

}  // namespace warpsight
