// Loads the recorder into a process. MACA has no known variable that loads a tool, so `warpsight record
// --backend maca` preloads a library of a few wrappers, which calls this before the program's first MACA
// call; ws.record() in a running program finds the runtime loaded.
#include <atomic>

#include "cuda/functions.h"
#include "maca/find_mcpti.h"
#include "maca/maca.h"
#include "maca/recorder.h"

namespace warpsight {
namespace {

// Somebody has registered the recorder, or is about to: of several one exchanges false for true.
std::atomic<bool> g_registered{false};

MacaRecorder& recorder() {
  static MacaRecorder* const value =
      new MacaRecorder;  // never destroyed: callbacks outlive static destructors
  return *value;
}

}  // namespace

void register_maca_backend(bool) {
  if (g_registered.load()) return;
  if (loaded_maca_runtime() == nullptr || !claim_profiler(Profiler::mcpti)) return;
  if (!g_registered.exchange(true)) add_recorder(&recorder());
}

}  // namespace warpsight

// Called by the preloaded library when MACA's runtime is there and the program has not used it yet.
extern "C" __attribute__((visibility("default"))) void ws_maca_loaded() {
  using namespace warpsight;
  if (g_registered.load()) return;
  recorder().set_early();
  if (ensure_runtime()) register_maca_backend(true);
}
