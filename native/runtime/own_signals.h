// Signals of the threads that this library starts.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace warpsight {

// While one of these lives, threads that are started leave the program's signals to the program's threads.
// Faults stay unblocked: the kernel kills a thread that has blocked its own SIGSEGV, so that neither the
// program's handler nor its core file would show where it happened.
class StartingThread {
 public:
  StartingThread() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT})
      sigdelset(&blocked, fault);
    pthread_sigmask(SIG_SETMASK, &blocked, &before_);
  }
  ~StartingThread() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  StartingThread(const StartingThread&) = delete;
  StartingThread& operator=(const StartingThread&) = delete;

 private:
  sigset_t before_;
};

}  // namespace warpsight
