// The Python interpreter in this process, if there is one that we can read.
#pragma once

#include <atomic>

#include "stacks/frames.h"

namespace warpsight {

struct Interpreter {
  enum class State : int {
    absent,   // no interpreter (yet)
    pending,  // found; its layout is checked on the first thread that has frames
    ready,
    refused,  // one we cannot read; a loss row says why
  };
  // Protects what follows: released after it is written, acquired before it is read.
  std::atomic<State> state;
  State now() const { return state.load(std::memory_order_acquire); }

  uint64_t runtime;         // _PyRuntime
  uint64_t finalizing;      // address of the thread state that ends the interpreter, 0 there until then
  uint64_t code_type;       // PyCode_Type
  uint64_t evaluator;       // _PyEval_EvalFrameDefault, 0 when its symbol is not exported
  void* (*thread_state)();  // PyGILState_GetThisThreadState: a thread-local read, no lock
  PythonLayout layout;
};
extern Interpreter g_interpreter;

// Looks for an interpreter when none is known, and checks its layout if this thread has frames. Takes the
// loader's lock: not for callbacks.
void find_interpreter();

// Checks the layout on the calling thread's own frames, which cannot change meanwhile, reading in a way that
// survives wrong addresses. True when stacks can be taken now.
bool check_interpreter();

// The calling thread's PyThreadState, 0 when it has none or the interpreter is being taken down.
inline uint64_t own_thread_state(const Interpreter& python) {
  const uint64_t state = reinterpret_cast<uint64_t>(python.thread_state());
  // While the interpreter ends, the states of other threads are freed under them.
  const uint64_t finalizing = *reinterpret_cast<const volatile uint64_t*>(python.finalizing);
  return finalizing == 0 || finalizing == state ? state : 0;
}

}  // namespace warpsight
