// The connection to the launcher: a SOCK_SEQPACKET Unix socket over which the arena's descriptor is handed.
#pragma once

#include <cstdint>
#include <string>

namespace warpsight {

struct Connection {
  int socket = -1;
  uint64_t inode = 0;         // distinguishes our descriptor from one that reuses its number
  uint32_t control = 0;       // the launcher's first control bits
  std::string raw_directory;  // where to drain to when the launcher is gone; empty when it did not say
};

// Connects, sends a hello with the arena and waits (at most 5 s) for the answer. Returns 0 or an errno:
// ECONNREFUSED if there is no listener, EPERM if the launcher refused (its reason is in `reason`). On
// failure, nothing stays open.
int connect_to_launcher(const std::string& path, int arena_fd, uint64_t arena_id, Connection* connection,
                        std::string* reason);

// True when the launcher has closed its end (or the program closed ours).
bool launcher_hung_up(const Connection& connection);

// Closes the socket, unless the program closed it already and its number now means something else.
void close_connection(Connection* connection);

}  // namespace warpsight
