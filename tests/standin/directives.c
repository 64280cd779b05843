// Plays an OpenMP runtime with a tools interface and an OpenACC runtime: finds the tool as they do, then
// tells it a fixed story. Arguments: openmp, openacc, fork.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void (*any)(void);
typedef union {
  uint64_t value;
  void* pointer;
} data;
typedef struct {
  int (*initialize)(any (*)(const char*), int, data*);
  void (*finalize)(data*);
  data tool;
} result;

static any g_callbacks[64];

static int set_callback(int event, any callback) {
  if (event == 33) return 1;  // no target_emi: the older form is used
  g_callbacks[event] = callback;
  return 5;
}

static any look_up(const char* name) {
  return strcmp(name, "ompt_set_callback") == 0 ? (any)set_callback : NULL;
}

#define CALL(event, types, ...) ((void(*) types)g_callbacks[event])(__VA_ARGS__)

static void parallel(void) {
  data task = {0}, explicit_task = {0}, region = {0};
  const void* here = (const void*)parallel;
  CALL(3, (data*, void*, data*, unsigned, int, const void*), &task, NULL, &region, 4, 1, here);
  CALL(7, (int, data*, data*, unsigned, unsigned, int), 1, &region, &task, 4, 0, 2);
  CALL(20, (int, int, data*, data*, uint64_t, const void*), 1, 1, &region, &task, 100, here);
  CALL(20, (int, int, data*, data*, uint64_t, const void*), 1, 2, &region, &task, 100, here);
  CALL(5, (data*, void*, data*, int, int, const void*), &task, NULL, &explicit_task, 4, 0, here);
  CALL(6, (data*, int, data*), &task, 7, &explicit_task);
  CALL(6, (data*, int, data*), &explicit_task, 1, &task);
  CALL(26, (int, unsigned, unsigned, uint64_t, const void*), 5, 0, 0, 1, here);
  CALL(27, (int, uint64_t, const void*), 5, 1, here);
  CALL(8, (int, int, int, data*, uint64_t, const void*), 1, 1, 0, &task, 1, here);
  CALL(8, (int, int, int, data*, uint64_t, const void*), 1, 2, 0, &task, 1, here);
  CALL(16, (int, int, data*, data*, const void*), 9, 1, &region, &task, here);
  CALL(16, (int, int, data*, data*, const void*), 9, 2, &region, &task, here);
  CALL(7, (int, data*, data*, unsigned, unsigned, int), 2, NULL, &task, 4, 0, 2);
  CALL(4, (data*, data*, int, const void*), &region, &task, 1, here);
}

static void openmp(void) {
  char* libraries = getenv("OMP_TOOL_LIBRARIES");
  void* tool = libraries != NULL ? dlopen(strtok(strdup(libraries), ":"), RTLD_NOW) : NULL;
  result* (*start)(unsigned, const char*) = tool != NULL ? dlsym(tool, "ompt_start_tool") : NULL;
  result* told = start != NULL ? start(201811, "stand-in") : NULL;
  if (told == NULL) {
    puts("no tool");
    return;
  }
  if (told->initialize(look_up, 0, &told->tool) == 0) exit(71);
  parallel();
  const pid_t child = getenv("FORKS") != NULL ? fork() : 1;
  if (child == 0) {
    parallel();
    exit(0);
  }
  if (child > 1) waitpid(child, NULL, 0);
  told->finalize(&told->tool);
}

typedef struct {
  int event, valid_bytes, version, device_type, device_number, thread;
  long async, async_queue;
  const char *file, *function;
  int line, end_line, function_line, function_end_line;
} prof_info;
typedef struct {
  int event, valid_bytes, construct, implicit;
  void* tool;
  const char* text;
  size_t numbers[3];
} event_info;

static void (*g_acc[32])(prof_info*, event_info*, void*);

static void add(int event, void (*callback)(prof_info*, event_info*, void*), int how) {
  (void)how;
  g_acc[event] = callback;
}

static void tell(int event, const char* text, size_t number) {
  prof_info info = {event, sizeof info, 201711, 4, 0, 0, -1, -1, "solver.c", "solve", 42, 44, 40, 60};
  event_info data = {event, sizeof data, 0, 0, NULL, text, {number, 8, 128}};
  if (g_acc[event] != NULL) g_acc[event](&info, &data, NULL);
}

static void openacc(void) {
  const char* library = getenv("ACC_PROFLIB");
  void* tool = library != NULL ? dlopen(library, RTLD_NOW) : NULL;
  void (*begin)(void*, void*, void*) = tool != NULL ? dlsym(tool, "acc_register_library") : NULL;
  if (begin == NULL) {
    puts("no library");
    return;
  }
  begin((void*)add, NULL, NULL);
  tell(10, NULL, 0);
  tell(8, "a", 4096);
  tell(20, "a", 4096);
  tell(21, "a", 4096);
  tell(11, NULL, 0);
  tell(16, NULL, 0);
  tell(18, "solve_42_gpu", 16);
  tell(19, "solve_42_gpu", 16);
  tell(17, NULL, 0);
}

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) strcmp(argv[i], "openmp") == 0 ? openmp() : openacc();
  return 0;
}
