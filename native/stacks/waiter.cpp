#include "stacks/waiter.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <string>

#include "stacks/code_table.h"

namespace warpsight {

namespace {

// More are not looked at: a list that changes under us may lead anywhere.
constexpr uint32_t kMostThreads = 4096;
constexpr uint32_t kMostInterpreters = 64;
// torch::autograd::get_current_graph_task_id(), since PyTorch 2.0: reads a thread-local variable.
constexpr const char* kPassSymbol = "_ZN5torch8autograd25get_current_graph_task_idEv";

int (*g_pass)() = nullptr;  // atomic
bool g_missed = false;      // atomic: a thread wanted it

int note_torch(dl_phdr_info* module, size_t, void* path) {
  if (!module->dlpi_name || !strstr(module->dlpi_name, "libtorch_cpu.so")) return 0;
  *static_cast<std::string*>(path) = module->dlpi_name;
  return 1;
}

bool ends_with(const std::string& text, const char* end) {
  const size_t length = strlen(end);
  return text.size() >= length && text.compare(text.size() - length, length, end) == 0;
}

}  // namespace

int64_t current_pass() {
  if (int (*const pass)() = __atomic_load_n(&g_pass, __ATOMIC_ACQUIRE)) return pass();
  __atomic_store_n(&g_missed, true, __ATOMIC_RELAXED);
  return kUnknownPass;
}

void find_passes() {
  if (__atomic_load_n(&g_pass, __ATOMIC_RELAXED) || !__atomic_exchange_n(&g_missed, false, __ATOMIC_RELAXED))
    return;
  void* symbol = dlsym(RTLD_DEFAULT, kPassSymbol);
  std::string path;
  if (!symbol && dl_iterate_phdr(note_torch, &path)) {
    if (void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD)) symbol = dlsym(library, kPassSymbol);
  }
  __atomic_store_n(&g_pass, reinterpret_cast<int (*)()>(symbol), __ATOMIC_RELEASE);
}

Waiter::Waiter(const Interpreter& python) : python_(python), memory_(getpid()) {}

// The function in which PyTorch calls its engine: one for backward and grad, since 2.3; before, these
// themselves.
bool Waiter::is_backward(const Place& place) {
  const PythonLayout& o = python_.layout;
  uint64_t type, address;
  if (!load(memory_, place.code + o.object_type, &type) || type != python_.code_type) return false;
  std::string name, file;
  if (!load(memory_, place.code + o.code_qualname, &address) || !read_text(o, memory_, address, &name))
    return false;
  const bool now = name == "_engine_run_backward";
  if (!now && name != "backward" && name != "grad") return false;
  if (!load(memory_, place.code + o.code_filename, &address) || !read_text(o, memory_, address, &file))
    return false;
  return ends_with(file, now ? "torch/autograd/graph.py" : "torch/autograd/__init__.py");
}

// Only enough to identify the function: most threads are not in this one.
bool Waiter::waits(uint64_t thread) {
  const PythonLayout& o = python_.layout;
  uint64_t frame;
  if (!innermost_frame(o, memory_, thread, &frame)) return false;
  for (int entries = 0; frame && entries < 4; ++entries) {
    Place place = {};
    if (o.minor < 11) return load(memory_, frame + o.frame_code, &place.code) && is_backward(place);
    const FrameKind kind = read_frame(o, memory_, frame, &place);
    if (kind == FrameKind::function) return is_backward(place);
    if (kind != FrameKind::shim || !load(memory_, frame + o.frame_previous, &frame)) return false;
  }
  return false;
}

Waiting Waiter::find(uint32_t depth, Chain* chain) {
  const PythonLayout& o = python_.layout;
  memory_.forget();
  thread_ = 0;
  depth_ = depth;
  uint64_t interpreter = 0;
  load(memory_, python_.runtime + o.interpreters_head, &interpreter);
  for (uint32_t i = 0; interpreter && i < kMostInterpreters; ++i) {
    uint64_t thread = 0;
    load(memory_, interpreter + o.threads_head, &thread);
    for (uint32_t j = 0; thread && j < kMostThreads; ++j) {
      if (waits(thread)) {
        if (thread_) return Waiting::several;
        thread_ = thread;
      }
      if (!load(memory_, thread + o.thread_next, &thread)) return Waiting::moving;
    }
    if (!load(memory_, interpreter + o.interpreter_next, &interpreter)) return Waiting::moving;
  }
  if (!thread_) return Waiting::nobody;
  uint64_t frame;
  if (!innermost_frame(o, memory_, thread_, &frame) || !walk_frames(o, memory_, frame, depth, true, chain) ||
      !chain->count || !still(*chain)) {
    return Waiting::moving;
  }
  return Waiting::one;
}

bool Waiter::still(const Chain& chain) {
  memory_.forget();
  Chain again = {nullptr, 0, false, 0};
  uint64_t frame;
  return innermost_frame(python_.layout, memory_, thread_, &frame) &&
         walk_frames(python_.layout, memory_, frame, depth_, true, &again) && again.count == chain.count &&
         again.hash == chain.hash && again.cut == chain.cut;
}

}  // namespace warpsight
