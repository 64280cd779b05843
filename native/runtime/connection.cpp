#include "runtime/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "ring/descriptors.h"

namespace warpsight {

namespace {

constexpr int kAnswerMs = 5000;

int open_socket(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    errno = ENAMETOOLONG;
    return -1;
  }
  memcpy(address.sun_path, path.data(), path.size());
  const int low = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (low < 0) return -1;
  if (connect(low, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    const int error = errno;
    close(low);
    errno = error;
    return -1;
  }
  return out_of_the_way(low);
}

bool send_hello(int socket, int arena_fd, uint64_t arena_id) {
  char text[64];
  const int length =
      snprintf(text, sizeof(text), "hello 1 %d %016" PRIx64, static_cast<int>(getpid()), arena_id);
  iovec part = {text, static_cast<size_t>(length)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &arena_fd, sizeof(int));
  ssize_t sent;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == length;
}

// "ok <control> [<raw directory>]" or "no <reason>".
int read_answer(int socket, Connection* connection, std::string* reason) {
  pollfd waiting = {socket, POLLIN, 0};
  int ready;
  do {
    ready = poll(&waiting, 1, kAnswerMs);
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) return ETIMEDOUT;
  char text[8192];
  const ssize_t length = recv(socket, text, sizeof(text) - 1, MSG_DONTWAIT);
  if (length <= 0) return length == 0 ? ECONNRESET : errno;
  text[length] = 0;
  if (strncmp(text, "ok ", 3) != 0) {
    *reason = strncmp(text, "no ", 3) == 0 ? text + 3 : "an answer that is neither ok nor no";
    return EPERM;
  }
  char* end = nullptr;
  connection->control = static_cast<uint32_t>(strtoul(text + 3, &end, 10));
  if (*end == ' ') connection->raw_directory = end + 1;
  return 0;
}

// The launcher may name the folder of all arenas or this arena's own one.
void complete_directory(std::string* directory, uint64_t arena_id) {
  if (directory->empty()) return;
  char name[32];
  snprintf(name, sizeof(name), "/%016" PRIx64, arena_id);
  const size_t length = strlen(name);
  const bool complete =
      directory->size() > length && directory->compare(directory->size() - length, length, name) == 0;
  if (!complete) *directory += name;
}

bool is_ours(const Connection& connection) {
  struct stat status;
  return connection.socket >= 0 && fstat(connection.socket, &status) == 0 && S_ISSOCK(status.st_mode) &&
         status.st_ino == connection.inode;
}

}  // namespace

int connect_to_launcher(const std::string& path, int arena_fd, uint64_t arena_id, Connection* connection,
                        std::string* reason) {
  const int socket = open_socket(path);
  if (socket < 0) return errno;
  const int error = send_hello(socket, arena_fd, arena_id) ? read_answer(socket, connection, reason) : errno;
  if (error) {
    close(socket);
    return error;
  }
  complete_directory(&connection->raw_directory, arena_id);
  struct stat status;
  connection->inode = fstat(socket, &status) == 0 ? status.st_ino : 0;
  connection->socket = socket;
  return 0;
}

bool launcher_hung_up(const Connection& connection) {
  if (!is_ours(connection)) return true;
  pollfd waiting = {connection.socket, POLLIN, 0};
  if (poll(&waiting, 1, 0) <= 0) return false;
  if (waiting.revents & (POLLHUP | POLLERR | POLLNVAL)) return true;
  char ignored;  // nothing is defined to come here; an end of file reads as 0 bytes
  return recv(connection.socket, &ignored, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
}

void close_connection(Connection* connection) {
  if (is_ours(*connection)) close(connection->socket);
  connection->socket = -1;
}

}  // namespace warpsight
