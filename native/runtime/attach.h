// Waiting, in a process started with WARPSIGHT=dormant and no launcher, for somebody to attach.
#pragma once

namespace warpsight {

// Listens at /tmp/warpsight-attach-UID/PID from its own thread, once per process; false if that fails. As
// long as no one attaches, this costs only a thread that sleeps in the kernel.
bool await_attach();

// At exit: removes the socket.
void end_attach();

// In a forked child: the socket is the parent's.
void forget_attach();

}  // namespace warpsight
