#include "cuda/sampled_gpus.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cuda/functions.h"
#include "cuda/machine.h"

namespace warpsight {
namespace {

struct Taken {
  int socket = -1;  // none: there is nobody else to ask
  uint32_t count = 0;
};

constexpr uint32_t kDevices = 64;                    // of a process; more are not asked about
pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;  // protects what follows
Taken g_taken[kDevices];

// A child samples nothing that its parent began to, and must not keep the GPU once that has ended.
void in_child() {
  g_lock = PTHREAD_MUTEX_INITIALIZER;  // a thread that is not there may have held it
  for (Taken& one : g_taken) {
    if (one.socket >= 0) close(one.socket);
    one = {};
  }
}

// A name in the abstract namespace: it needs no file, and goes with the process.
socklen_t address_of(uint32_t device, sockaddr_un* address) {
  const std::string name = "warpsight samples " + device_identity(device);
  *address = {};
  address->sun_family = AF_UNIX;
  const size_t length = std::min(name.size(), sizeof address->sun_path - 1);
  memcpy(address->sun_path + 1, name.data(), length);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

std::string owner_of(const sockaddr_un& address, socklen_t length) {
  const int asking = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (asking < 0) return "another process";
  ucred owner = {};
  socklen_t size = sizeof owner;
  const bool known = connect(asking, reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
                     getsockopt(asking, SOL_SOCKET, SO_PEERCRED, &owner, &size) == 0 && owner.pid > 0;
  close(asking);
  return known ? "process " + std::to_string(owner.pid) : "another process";
}

}  // namespace

bool take_gpu(uint32_t device, std::string* other) {
  static const int registered = pthread_atfork(nullptr, nullptr, in_child);
  if (device >= kDevices || registered != 0) return true;
  pthread_mutex_lock(&g_lock);
  Taken& one = g_taken[device];
  bool ours = one.count != 0;
  if (!ours) {
    sockaddr_un address;
    const socklen_t length = address_of(device, &address);
    one.socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ours = one.socket < 0 || (bind(one.socket, reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
                              listen(one.socket, 1) == 0);
    if (!ours && errno != EADDRINUSE) ours = true;  // sockets are forbidden here
    if (!ours) {
      *other = owner_of(address, length);
      close(one.socket);
      one.socket = -1;
    }
  }
  one.count += ours;
  pthread_mutex_unlock(&g_lock);
  return ours;
}

void release_gpu(uint32_t device) {
  if (device >= kDevices) return;
  pthread_mutex_lock(&g_lock);
  Taken& one = g_taken[device];
  if (one.count != 0 && --one.count == 0 && one.socket >= 0) {
    close(one.socket);
    one.socket = -1;
  }
  pthread_mutex_unlock(&g_lock);
}

}  // namespace warpsight
