#include "runtime/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>

#include "ring/descriptors.h"
#include "runtime/own_signals.h"
#include "runtime/state.h"

namespace warpsight {
namespace {

int g_listener = -1;  // under runtime().lock, or in a forked child without other threads
char g_path[108];     // of the socket; empty without one
pid_t g_owner = 0;    // the process that made it

// A folder that only this user can enter: anyone who can open the socket may have the process recorded.
bool own_folder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return false;
  struct stat status;
  return lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
         (status.st_mode & 077) == 0;
}

int listen_at(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return -1;
  memcpy(address.sun_path, path.data(), path.size());
  const int low = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (low < 0) return -1;
  unlink(path.c_str());  // of an earlier process with our id
  const bool listens =
      bind(low, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 && listen(low, 8) == 0;
  if (listens) return out_of_the_way(low);
  close(low);
  return -1;
}

bool is_ours_or_roots(int connection) {
  ucred peer = {};
  socklen_t length = sizeof(peer);
  return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         (peer.uid == geteuid() || peer.uid == 0);
}

// "record 1 SOCKET" begins a recording to that launcher; "status 1" asks for the launcher of the present one.
std::string serve(const char* request) {
  constexpr char kRecord[] = "record 1 ";
  if (strncmp(request, kRecord, sizeof(kRecord) - 1) == 0) {
    const int error = start_runtime(request + sizeof(kRecord) - 1);
    return error == 0 ? "ok"
                      : std::string("no ") + (error == EALREADY ? "it is being recorded" : strerror(error));
  }
  if (strcmp(request, "status 1") == 0) return "ok " + launcher_socket();
  return "no not a request of this version";
}

void* listen_for_ever(void* argument) {
  pthread_setname_np(pthread_self(), "warpsight-await");
  const int listener = static_cast<int>(reinterpret_cast<intptr_t>(argument));
  for (;;) {
    const int connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return nullptr;  // the program closed it
    }
    char request[512] = {};
    if (is_ours_or_roots(connection) && recv(connection, request, sizeof(request) - 1, 0) > 0) {
      const std::string answer = serve(request);
      (void)!send(connection, answer.data(), answer.size(), MSG_NOSIGNAL);
    }
    close(connection);
  }
}

}  // namespace

bool await_attach() {
  if (g_listener >= 0) return true;
  const std::string folder = "/tmp/warpsight-attach-" + std::to_string(geteuid());
  if (!own_folder(folder)) return false;
  g_listener = listen_at(folder + "/" + std::to_string(getpid()));
  if (g_listener < 0) return false;
  const StartingThread starting;
  pthread_t thread;
  g_owner = getpid();
  snprintf(g_path, sizeof(g_path), "%s/%d", folder.c_str(), static_cast<int>(g_owner));
  const bool started = pthread_create(&thread, nullptr, listen_for_ever,
                                      reinterpret_cast<void*>(static_cast<intptr_t>(g_listener))) == 0;
  if (started) {
    pthread_detach(thread);
  } else {
    forget_attach();
  }
  return started;
}

void end_attach() {
  if (g_owner == getpid() && g_path[0] != 0) unlink(g_path);
}

void forget_attach() {
  if (g_listener >= 0) close(g_listener);
  g_listener = -1;
}

}  // namespace warpsight
