#include "runtime/identity.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <string>
#include <unordered_map>

#include "runtime/runtime.h"
#include "runtime/settings.h"

extern char** environ;

namespace warpsight {

namespace {

// Variables that explain a run; everything else stays private.
constexpr const char* kAllowed[] = {
    "CUDA_", "NCCL_", "TORCH_",   "PYTORCH_", "TORCHINDUCTOR_", "TRITON_", "OMP_",   "MKL_",
    "KMP_",  "HIP_",  "ROCR_",    "HSA_",     "OPENCL_",        "OCL_",    "POCL_",  "XLA_",
    "JAX_",  "TF_",   "CUPY_",    "NVIDIA_",  "NVTE_",          "VLLM_",   "SLURM_", "OMPI_COMM_WORLD_",
    "PMI_",  "UCX_",  "WARPSIGHT"};
constexpr const char* kAllowedWhole[] = {"RANK",          "WORLD_SIZE",  "LOCAL_RANK",  "LOCAL_WORLD_SIZE",
                                         "GROUP_RANK",    "MASTER_ADDR", "MASTER_PORT", "LD_LIBRARY_PATH",
                                         "PYTHONHASHSEED"};
// Even under an allowed prefix (SLURM_JWT is a login).
constexpr const char* kNever[] = {"TOKEN",      "SECRET", "PASSWORD", "PASSWD",
                                  "CREDENTIAL", "JWT",    "_KEY",     "AUTH"};

bool is_allowed(const char* variable, size_t name_length) {
  const std::string name(variable, name_length);
  for (const char* never : kNever) {
    if (name.find(never) != std::string::npos) return false;
  }
  for (const char* whole : kAllowedWhole) {
    if (name == whole) return true;
  }
  for (const char* prefix : kAllowed) {
    if (name.compare(0, strlen(prefix), prefix) == 0) return true;
  }
  return false;
}

std::string allowed_environment() {
  std::string lines;
  for (char** variable = environ; variable && *variable; ++variable) {
    const char* equals = strchr(*variable, '=');
    if (!equals || !is_allowed(*variable, static_cast<size_t>(equals - *variable))) continue;
    const std::string line = *variable;
    if (line.find('\n') != std::string::npos) continue;  // would read as two variables
    lines += line + "\n";
  }
  return lines;
}

std::string read_file(const char* path, size_t most) {
  std::string text;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  char part[4096];
  ssize_t count;
  while (text.size() < most && (count = read(fd, part, sizeof(part))) > 0)
    text.append(part, static_cast<size_t>(count));
  close(fd);
  return text;
}

// The number in the first of the variables that has one; -1 if none does.
int32_t first_number(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* value = getenv(name);
    if (!value || !*value) continue;
    char* end = nullptr;
    const long number = strtol(value, &end, 10);
    if (!*end && number >= 0 && number <= 0x7fffffff) return static_cast<int32_t>(number);
  }
  return -1;
}

uint64_t clock_ns(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

// Last name written of each thread; touched by our thread only.
std::unordered_map<uint32_t, std::string>* g_names = nullptr;

void write_thread_row(uint32_t thread, std::string_view name) {
  write(Thread{thread, intern(name), now_ns()});
}

}  // namespace

void write_process_row() {
  std::string command = read_file("/proc/self/cmdline", kMaxStringBytes);
  while (!command.empty() && command.back() == 0) command.pop_back();
  char executable[4096] = {};
  (void)!readlink("/proc/self/exe", executable, sizeof(executable) - 1);
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  Process row = {};
  row.pid = static_cast<uint32_t>(getpid());
  row.parent = static_cast<uint32_t>(getppid());
  row.time = now_ns();
  row.command = intern(command);
  row.executable = intern(executable);
  row.host = intern(host);
  row.environment = intern(allowed_environment());
  // In the order of src/warpsight/recorder/ranks.py: variables set closest to the program come first.
  row.rank = first_number({"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK",
                           "PALS_RANKID", "FLUX_TASK_RANK", "SLURM_PROCID", "JOB_COMPLETION_INDEX"});
  row.local_rank =
      first_number({"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                    "MV2_COMM_WORLD_LOCAL_RANK", "PALS_LOCAL_RANKID", "FLUX_TASK_LOCAL_ID", "SLURM_LOCALID"});
  row.world_size = first_number({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
                                 "FLUX_JOB_SIZE", "SLURM_NTASKS"});
  row.settings = intern(settings_json());
  write(row, OnFull::wait);
}

void write_own_thread_row() {
  char name[32] = {};
  prctl(PR_GET_NAME, name);
  write_thread_row(thread_id(), name);
}

void refresh_thread_rows() {
  if (!g_names) g_names = new std::unordered_map<uint32_t, std::string>;
  DIR* tasks = opendir("/proc/self/task");
  if (!tasks) return;
  std::unordered_map<uint32_t, std::string> now;
  while (const dirent* entry = readdir(tasks)) {
    const unsigned long thread = strtoul(entry->d_name, nullptr, 10);
    if (!thread) continue;
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/task/%lu/comm", thread);
    std::string name = read_file(path, 64);
    while (!name.empty() && name.back() == '\n') name.pop_back();
    if (name.empty()) continue;
    const auto known = g_names->find(static_cast<uint32_t>(thread));
    if (known == g_names->end() || known->second != name)
      write_thread_row(static_cast<uint32_t>(thread), name);
    now.emplace(static_cast<uint32_t>(thread), std::move(name));
  }
  closedir(tasks);
  g_names->swap(now);  // drop threads that have exited: their ids may be reused
}

void forget_thread_names(bool forked) {
  if (!forked) delete g_names;  // in a forked child our thread may have been changing it
  g_names = nullptr;
}

void write_clock_row() {
  Clock row = {};
  row.device = ~0u;
  row.uncertainty = ~0u;
  for (int i = 0; i < 5; ++i) {  // the tightest of five readings
    const uint64_t before = clock_ns(CLOCK_MONOTONIC);
    const uint64_t real = clock_ns(CLOCK_REALTIME);
    const uint64_t after = clock_ns(CLOCK_MONOTONIC);
    if (after - before >= row.uncertainty) continue;
    row.monotonic = before + (after - before) / 2;
    row.realtime = real;
    row.uncertainty = static_cast<uint32_t>(after - before);
  }
  write(row, OnFull::wait);
}

}  // namespace warpsight
