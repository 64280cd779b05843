// Making, retiring and forgetting the arena: one sparse memfd, mapped here and in the launcher.
#include "ring/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <new>

namespace warpsight {

SpinLock g_arena_lock;
uint64_t g_epoch = 1ull << 32;

namespace {

constexpr uint32_t kFewestBlocks = 128;
constexpr uint64_t kFixedBytes = kArenaHeaderBytes + kRingCapacity * kRingDescriptorBytes;
// File descriptors from here on: out of the way of programs that close or reuse the low ones.
constexpr int kFirstDescriptor = 500;

const ArenaMap* g_map = nullptr;         // atomic; nullptr without an arena
const ArenaMap* g_newest_map = nullptr;  // under g_arena_lock
int g_fd = -1;
ino_t g_inode = 0;  // tells our descriptor from one that reuses its number after the program closed ours

uint64_t clock_ns(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

uint64_t random_id() {
  uint64_t id = 0;
  if (getrandom(&id, sizeof(id), GRND_NONBLOCK) != sizeof(id)) {
    id = clock_ns(CLOCK_REALTIME) * 0x9e3779b97f4a7c15ull ^ static_cast<uint64_t>(getpid()) << 40;
  }
  return id ? id : 1;
}

// ftruncate beyond RLIMIT_FSIZE would not only fail but send SIGXFSZ, so the limit is asked first.
uint32_t blocks_allowed() {
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kBlockCapacity;
  if (limit.rlim_cur <= kFixedBytes) return 0;
  const uint64_t blocks = (limit.rlim_cur - kFixedBytes) / kBlockBytes;
  return blocks < kBlockCapacity ? static_cast<uint32_t>(blocks) : static_cast<uint32_t>(kBlockCapacity);
}

int memory_file() {
  const int low =
      static_cast<int>(syscall(SYS_memfd_create, "warpsight-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (low < 0) return -1;
  const int high = fcntl(low, F_DUPFD_CLOEXEC, kFirstDescriptor);
  if (high < 0) return low;
  close(low);
  return high;
}

// Sizes and maps `fd`, with fewer blocks where a limit asks for it; MAP_FAILED with errno set when nothing
// fits.
void* size_and_map(int fd, uint32_t* blocks) {
  *blocks = blocks_allowed();
  errno = EFBIG;
  for (; *blocks >= kFewestBlocks; *blocks /= 2) {
    const uint64_t bytes = kFixedBytes + *blocks * kBlockBytes;
    if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) continue;
    void* map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (map != MAP_FAILED) return map;
  }
  return MAP_FAILED;
}

void fill_header(ArenaHeader* header) {
  header->version = kLayoutVersion;
  header->pid = static_cast<uint32_t>(getpid());
  header->arena = random_id();
  header->start_monotonic = clock_ns(CLOCK_MONOTONIC);
  header->start_realtime = clock_ns(CLOCK_REALTIME);
  header->state = kStateStarting;
  __atomic_store_n(&header->magic, kArenaMagic, __ATOMIC_RELEASE);
}

uint64_t bytes_of(const ArenaMap& map) { return kFixedBytes + map.capacity * kBlockBytes; }

// Closes our descriptor unless the program closed it already and the number now means something else.
void close_descriptor() {
  struct stat status;
  if (g_fd >= 0 && fstat(g_fd, &status) == 0 && status.st_ino == g_inode) close(g_fd);
  g_fd = -1;
}

bool make_arena() {
  const int fd = memory_file();
  if (fd < 0) return false;
  uint32_t blocks = 0;
  void* map = size_and_map(fd, &blocks);
  struct stat status;
  // Sealed, so that the drainer can trust the mapping's length; the seals themselves cannot be removed.
  if (map == MAP_FAILED || fstat(fd, &status) != 0 ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    const int error = errno;
    close(fd);
    errno = error;
    return false;
  }
  g_fd = fd;
  g_inode = status.st_ino;
  char* base = static_cast<char*>(map);
  ArenaHeader* header = reinterpret_cast<ArenaHeader*>(base);
  fill_header(header);
  const ArenaMap* published =
      new (std::nothrow) ArenaMap{header, reinterpret_cast<RingDescriptor*>(base + kArenaHeaderBytes),
                                  base + kFixedBytes, blocks, g_newest_map};
  if (!published) return false;
  g_newest_map = published;
  __atomic_store_n(&g_map, published, __ATOMIC_RELEASE);
  return true;
}

}  // namespace

uint64_t monotonic_ns() { return clock_ns(CLOCK_MONOTONIC); }

const ArenaMap* arena_map() { return __atomic_load_n(&g_map, __ATOMIC_ACQUIRE); }

ArenaHeader* arena() {
  const ArenaMap* map = arena_map();
  return map ? map->header : nullptr;
}

int arena_fd() { return g_fd; }

uint32_t arena_blocks() {
  const ArenaMap* map = arena_map();
  return map ? map->capacity : 0;
}

ArenaHeader* create_arena() {
  LockGuard guard(g_arena_lock);
  if (g_map) return g_map->header;
  reset_ring_state(false);
  if (!make_arena()) return nullptr;
  replay_definitions();
  return g_map->header;
}

void set_session(uint32_t session) {
  LockGuard guard(g_arena_lock);
  __atomic_store_n(&g_epoch, (g_epoch >> 32 << 32) | session, __ATOMIC_RELEASE);
}

void retire_arena() {
  LockGuard guard(g_arena_lock);
  const ArenaMap* map = g_map;
  if (!map) return;
  __atomic_store_n(&g_epoch, ((g_epoch >> 32) + 1) << 32, __ATOMIC_RELEASE);
  __atomic_store_n(&g_map, nullptr, __ATOMIC_RELEASE);
  // A thread may be in the middle of a row: what it writes goes to private memory from here on. Nothing is
  // unmapped.
  mmap(map->header, bytes_of(*map), PROT_READ | PROT_WRITE,
       MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  close_descriptor();
}

void forget_arena() {
  g_arena_lock.reset();
  reset_ring_state(true);
  forget_definitions();
  if (g_map) munmap(g_map->header, bytes_of(*g_map));
  g_map = nullptr;
  close_descriptor();
  g_epoch = ((g_epoch >> 32) + 1) << 32;
}

}  // namespace warpsight
