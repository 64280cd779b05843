// Making, retiring and forgetting the arena: one file in memory, mapped here and in the launcher.
#include "ring/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <new>

#include "ring/descriptors.h"
#include "ring/hot.h"

namespace warpsight {

SpinLock g_arena_lock;
WARPSIGHT_HOT_DATA uint64_t g_epoch = 1ull << 32;

namespace {

constexpr uint32_t kFewestBlocks = 128;
constexpr uint64_t kFixedBytes = kArenaHeaderBytes + kRingCapacity * kRingDescriptorBytes;
// Free space that a tmpfs must have for arenas to be files in it.
constexpr uint64_t kFreeBytes = 256ull << 20;

const ArenaMap* g_map = nullptr;         // atomic; nullptr without an arena
const ArenaMap* g_newest_map = nullptr;  // under g_arena_lock
int g_fd = -1;
ino_t g_inode =
    0;  // distinguishes our descriptor from one that reuses its number after the program closed ours
char g_path[256];  // under g_arena_lock: of a named arena; empty for a memfd

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

uint64_t limit_of(int which) {
  rlimit limit;
  return getrlimit(static_cast<__rlimit_resource>(which), &limit) != 0 ? RLIM_INFINITY : limit.rlim_cur;
}

// At most `most`. ftruncate beyond RLIMIT_FSIZE would not only fail but send SIGXFSZ, so the limit is asked
// first; and of the addresses that a program may use, few are ours.
uint32_t blocks_allowed(uint32_t most) {
  uint64_t bytes = kFixedBytes + most * kBlockBytes;
  if (const uint64_t limit = limit_of(RLIMIT_FSIZE); limit < bytes) bytes = limit;
  if (const uint64_t limit = limit_of(RLIMIT_AS); limit != RLIM_INFINITY && limit / 16 < bytes)
    bytes = limit / 16;
  return bytes <= kFixedBytes ? 0 : static_cast<uint32_t>((bytes - kFixedBytes) / kBlockBytes);
}

int memory_file() {
  return out_of_the_way(
      static_cast<int>(syscall(SYS_memfd_create, "warpsight-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING)));
}

// A new file of `folder` that only this user can open, and its path in g_path; -1 unless the folder is in
// memory and has room: a full one would end the program at a store, and others need room there, too.
int named_file(const char* folder, uint64_t id) {
  struct statfs system;
  if (!folder || !*folder || statfs(folder, &system) != 0 || system.f_type != TMPFS_MAGIC) return -1;
  if (static_cast<uint64_t>(system.f_bavail) * static_cast<uint64_t>(system.f_bsize) < kFreeBytes) return -1;
  const int length = snprintf(g_path, sizeof(g_path), "%s/%016" PRIx64, folder, id);
  const bool fits = length > 0 && static_cast<size_t>(length) < sizeof(g_path);
  const int fd = fits ? open(g_path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600) : -1;
  if (fd < 0) g_path[0] = 0;
  return out_of_the_way(fd);
}

// Sizes and maps `fd` for at most `*blocks` blocks, with fewer where a limit asks for it; MAP_FAILED with
// errno set when nothing fits.
void* size_and_map(int fd, uint32_t* blocks) {
  *blocks = blocks_allowed(*blocks);
  errno = EFBIG;
  for (; *blocks >= kFewestBlocks; *blocks /= 2) {
    const uint64_t bytes = kFixedBytes + *blocks * kBlockBytes;
    if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) continue;
    void* map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (map != MAP_FAILED) return map;
  }
  return MAP_FAILED;
}

void fill_header(ArenaHeader* header, uint64_t id) {
  header->version = kLayoutVersion;
  header->pid = static_cast<uint32_t>(getpid());
  header->arena = id;
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

void remove_file() {
  if (g_path[0]) unlink(g_path);
  g_path[0] = 0;
}

// Maps a new file; on failure, closes it and returns nullptr with errno set.
char* map_file(int fd, bool named, uint32_t* blocks) {
  void* map = fd < 0 ? MAP_FAILED : size_and_map(fd, blocks);
  struct stat status;
  // A memfd is sealed, so that the drainer can trust its length; the seals themselves cannot be removed.
  const bool sound = map != MAP_FAILED && fstat(fd, &status) == 0 &&
                     (named ? populate(map, kFixedBytes)
                            : fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
  if (!sound) {
    const int error = errno;
    if (map != MAP_FAILED) munmap(map, kFixedBytes + *blocks * kBlockBytes);
    if (fd >= 0) close(fd);
    errno = error;
    return nullptr;
  }
  g_fd = fd;
  g_inode = status.st_ino;
  return static_cast<char*>(map);
}

bool make_arena(const char* folder, uint32_t most_blocks) {
  const uint64_t id = random_id();
  uint32_t blocks = most_blocks;
  char* base = map_file(named_file(folder, id), true, &blocks);
  const bool named = base != nullptr;
  if (!named) {
    remove_file();
    blocks = most_blocks;
    base = map_file(memory_file(), false, &blocks);
  }
  if (!base) return false;
  ArenaHeader* header = reinterpret_cast<ArenaHeader*>(base);
  fill_header(header, id);
  const ArenaMap* published =
      new (std::nothrow) ArenaMap{header,
                                  reinterpret_cast<RingDescriptor*>(base + kArenaHeaderBytes),
                                  base + kFixedBytes,
                                  blocks,
                                  named,
                                  g_newest_map};
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

void remove_arena_file() {
  LockGuard guard(g_arena_lock);
  remove_file();
}

ArenaHeader* create_arena(const char* folder, uint32_t most_blocks) {
  LockGuard guard(g_arena_lock);
  if (g_map) return g_map->header;
  reset_ring_state(false);
  if (!make_arena(folder, most_blocks)) return nullptr;
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
  g_path[0] = 0;
  // A thread may be in the middle of a row: from here on its writes go to private memory. Nothing is
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
  g_path[0] = 0;
  close_descriptor();
  g_epoch = ((g_epoch >> 32) + 1) << 32;
}

}  // namespace warpsight
