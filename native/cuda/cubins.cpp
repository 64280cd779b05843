#include "cuda/cubins.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_set>
#include <vector>

#include "cuda/sass_counts.h"
#include "runtime/runtime.h"

namespace warpsight {
namespace {

// Copies that may wait for the worker, and all that one recording keeps of one process.
constexpr size_t kMostWaiting = 256u << 20;
constexpr uint64_t kMostKept = 4ull << 30;

struct Image {
  uint64_t checksum;
  void* bytes;
  size_t size;
};

pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;  // protects everything below
struct Kept {
  std::unordered_set<uint64_t> checksums;
  std::vector<Image> waiting;
  size_t waiting_bytes = 0;
  uint64_t bytes = 0;
};
Kept& kept() {
  static Kept* const value = new Kept;  // never destroyed: callbacks outlive static destructors
  return *value;
}

struct Guard {
  Guard() { pthread_mutex_lock(&g_lock); }
  ~Guard() { pthread_mutex_unlock(&g_lock); }
};

bool write_all(int file, const Image& image) {
  for (size_t done = 0; done < image.size;) {
    const ssize_t written = ::write(file, static_cast<const char*>(image.bytes) + done, image.size - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    done += static_cast<size_t>(written);
  }
  return true;
}

// 0 or an errno. Another process may keep the same image at this moment, so it gets its name when it is
// complete.
int write_image(const std::string& folder, const Image& image) {
  char name[64];
  snprintf(name, sizeof name, "/%016" PRIx64 ".cubin", image.checksum);
  const std::string path = folder + name;
  if (access(path.c_str(), F_OK) == 0) return 0;
  const std::string draft = path + "." + std::to_string(getpid());
  const int file = open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return errno;
  int error = write_all(file, image) ? 0 : errno;
  close(file);
  if (error == 0 && rename(draft.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) unlink(draft.c_str());
  return error;
}

// Samples of program counters mean nothing without the code.
bool wanted() { return settings().cubins || settings().pc_sampling != 0 || instructions_counted(); }

}  // namespace

void keep_cubin(uint64_t checksum, const void* image, size_t size) {
  if (!wanted() || image == nullptr || size == 0) return;
  const char* refused = nullptr;
  {
    Guard guard;
    Kept& all = kept();
    if (!all.checksums.insert(checksum).second) return;
    void* bytes = nullptr;
    if (all.bytes + size > kMostKept) {
      refused = "cubins of this process reached 4 GiB; further ones are not kept";
    } else if (all.waiting_bytes + size > kMostWaiting || (bytes = malloc(size)) == nullptr) {
      refused = "modules were loaded faster than their cubins could be written";
    } else {
      memcpy(bytes, image, size);
      all.waiting.push_back({checksum, bytes, size});
      all.waiting_bytes += size;
      all.bytes += size;
    }
  }
  if (refused != nullptr) report_loss("cubins", refused, 1);
}

void write_cubins() {
  if (!wanted()) return;
  std::vector<Image> images;
  {
    Guard guard;
    images.swap(kept().waiting);
    kept().waiting_bytes = 0;
  }
  if (images.empty()) return;
  const std::string root = recording_folder();
  const std::string folder = root + "/cubins";
  int error = 0;
  if (root.empty())
    error = ENOENT;  // the launcher did not give a recording folder
  else if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    error = errno;
  uint64_t lost = 0;
  for (const Image& image : images) {
    const int result = error != 0 ? error : write_image(folder, image);
    if (result != 0) error = result, ++lost;
    free(image.bytes);
  }
  if (lost != 0)
    report_loss("cubins", "cubins cannot be written to " + folder + ": " + strerror(error), lost);
}

}  // namespace warpsight
