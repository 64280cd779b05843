/* Annotate a native program for warpsight. One header, C99 or C++, nothing to link against (older glibc:
 * -ldl).
 *
 * Every function is a no-op that returns 0 when nothing records: the recorder (libwarpsight.so) is looked for
 * once, at the first call, among the libraries already in the process and then at $WARPSIGHT_LIBRARY, which
 * `warpsight record` sets. Each source file that includes this header looks once for itself. All functions
 * may be called from any thread.
 *
 *   #include <warpsight.h>
 *   warpsight_push("phase 1");
 *   warpsight_counter("queue length", 17, "1");
 *   warpsight_pop();
 */
#ifndef WARPSIGHT_H
#define WARPSIGHT_H

#include <dlfcn.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WARPSIGHT_UNUSED __attribute__((unused))

enum warpsight_memory_operation { WARPSIGHT_ALLOCATE = 1, WARPSIGHT_FREE = 2 };
enum warpsight_memory_category {
  WARPSIGHT_UNKNOWN = 0,
  WARPSIGHT_ACTIVATION = 1,
  WARPSIGHT_GRADIENT = 2,
  WARPSIGHT_PARAMETER = 3,
  WARPSIGHT_TEMPORARY = 4,
  WARPSIGHT_CACHED = 5
};

/* The functions of libwarpsight.so; null without it. */
struct warpsight_functions {
  int (*start)(const char*);
  int (*stop)(void);
  int (*recording)(void);
  int (*flush)(uint32_t);
  int (*emit)(const char*, uint64_t, uint64_t, const char*, const char*);
  int (*counter)(const char*, double, const char*, int);
  int (*push)(const char*, const char*);
  int (*pop)(void);
  int (*instant)(const char*, const char*);
  int (*memory)(int, uint64_t, uint64_t, const char*, const char*, int, int);
  uint64_t (*now)(void);
};

/* Copies a symbol's address into a function pointer: C has no cast between the two. */
static inline WARPSIGHT_UNUSED void warpsight_find(void* library, const char* name, void* pointer) {
  void* symbol = library ? dlsym(library, name) : NULL;
  memcpy(pointer, &symbol, sizeof(symbol));
}

static inline WARPSIGHT_UNUSED void warpsight_find_all(struct warpsight_functions* found) {
  const char* path = getenv("WARPSIGHT_LIBRARY");
  void* library = path && *path ? dlopen(path, RTLD_NOW) : NULL;
  if (!library) library = dlopen(NULL, RTLD_NOW); /* the program and what it loaded for all to see */
  if (library && !dlsym(library, "ws_push")) library = NULL;
  if (!library) library = dlopen("libwarpsight.so", RTLD_NOW | RTLD_NOLOAD);
  warpsight_find(library, "ws_start", &found->start);
  warpsight_find(library, "ws_stop", &found->stop);
  warpsight_find(library, "ws_recording", &found->recording);
  warpsight_find(library, "ws_flush", &found->flush);
  warpsight_find(library, "ws_emit", &found->emit);
  warpsight_find(library, "ws_counter", &found->counter);
  warpsight_find(library, "ws_push", &found->push);
  warpsight_find(library, "ws_pop", &found->pop);
  warpsight_find(library, "ws_instant", &found->instant);
  warpsight_find(library, "ws_memory", &found->memory);
  warpsight_find(library, "ws_now", &found->now);
}

/* Looks the functions up at the first call; threads that come meanwhile wait, so that ranges stay balanced.
 */
static inline WARPSIGHT_UNUSED const struct warpsight_functions* warpsight_library(void) {
  static struct warpsight_functions functions;
  static int looked; /* atomic: 0 no, 1 somebody is looking, 2 done; orders the stores to `functions` before
                        their use */
  int expected = 0;
  if (__builtin_expect(__atomic_load_n(&looked, __ATOMIC_ACQUIRE) == 2, 1)) return &functions;
  if (__atomic_compare_exchange_n(&looked, &expected, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
    warpsight_find_all(&functions);
    __atomic_store_n(&looked, 2, __ATOMIC_RELEASE);
  }
  while (__atomic_load_n(&looked, __ATOMIC_ACQUIRE) != 2) sched_yield();
  return &functions;
}

/* Starts recording in this process: to the launcher that listens at `socket_path`, or with NULL to the one
 * that started the program. Programs that use CUDA or OpenCL under `warpsight record` are recording already.
 * 0 or a negative errno. */
static inline WARPSIGHT_UNUSED int warpsight_start(const char* socket_path) {
  const struct warpsight_functions* w = warpsight_library();
  if (!w->start || (!socket_path && !getenv("WARPSIGHT_SOCKET"))) return 0;
  return w->start(socket_path);
}

/* Ends the recording of this process and hands everything over. 0 or a negative errno. */
static inline WARPSIGHT_UNUSED int warpsight_stop(void) {
  const struct warpsight_functions* w = warpsight_library();
  return w->stop ? w->stop() : 0;
}

/* 1 while rows are being recorded. */
static inline WARPSIGHT_UNUSED int warpsight_recording(void) {
  const struct warpsight_functions* w = warpsight_library();
  return w->recording ? w->recording() : 0;
}

/* Hands over what is complete, waiting `milliseconds` at most. */
static inline WARPSIGHT_UNUSED int warpsight_flush(uint32_t milliseconds) {
  const struct warpsight_functions* w = warpsight_library();
  return w->flush ? w->flush(milliseconds) : 0;
}

/* CLOCK_MONOTONIC in nanoseconds, for warpsight_emit; 0 without the recorder. */
static inline WARPSIGHT_UNUSED uint64_t warpsight_now(void) {
  const struct warpsight_functions* w = warpsight_library();
  return w->now ? w->now() : 0;
}

/* Opens and closes a range of the calling thread; ranges nest. */
static inline WARPSIGHT_UNUSED int warpsight_push(const char* name) {
  const struct warpsight_functions* w = warpsight_library();
  return w->push ? w->push(name, NULL) : 0;
}
static inline WARPSIGHT_UNUSED int warpsight_pop(void) {
  const struct warpsight_functions* w = warpsight_library();
  return w->pop ? w->pop() : 0;
}

/* An event with a begin (0: now) and a duration in nanoseconds; `attributes` is a JSON object or NULL. */
static inline WARPSIGHT_UNUSED int warpsight_emit(const char* name, uint64_t start, uint64_t duration,
                                                  const char* kind, const char* attributes) {
  const struct warpsight_functions* w = warpsight_library();
  return w->emit ? w->emit(name, start, duration, kind, attributes) : 0;
}

/* A number as it is now; the unit of a plain count is "1". */
static inline WARPSIGHT_UNUSED int warpsight_counter(const char* name, double value, const char* unit) {
  const struct warpsight_functions* w = warpsight_library();
  return w->counter ? w->counter(name, value, unit, -1) : 0;
}

/* A named moment. */
static inline WARPSIGHT_UNUSED int warpsight_mark(const char* name) {
  const struct warpsight_functions* w = warpsight_library();
  return w->instant ? w->instant(name, NULL) : 0;
}

/* Tells the recording that something worth keeping has happened; `reason` says what. */
static inline WARPSIGHT_UNUSED int warpsight_trigger(const char* reason) {
  const struct warpsight_functions* w = warpsight_library();
  return w->instant ? w->instant(reason, "warpsight.trigger") : 0;
}

/* An allocation or free of an allocator of the program's own; `device` is -1 for host memory. */
static inline WARPSIGHT_UNUSED int warpsight_memory(enum warpsight_memory_operation operation,
                                                    const void* address, uint64_t bytes,
                                                    const char* allocator, const char* tag,
                                                    enum warpsight_memory_category category, int device) {
  const struct warpsight_functions* w = warpsight_library();
  if (!w->memory) return 0;
  return w->memory((int)operation, (uint64_t)(uintptr_t)address, bytes, allocator, tag, (int)category,
                   device);
}

#ifdef __cplusplus
}

namespace warpsight {

/* A range as long as the object lives. */
class Range {
 public:
  explicit Range(const char* name) { warpsight_push(name); }
  ~Range() { warpsight_pop(); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

}  // namespace warpsight
#endif

#endif /* WARPSIGHT_H */
