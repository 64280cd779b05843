#include "cuda/find_cupti.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <link.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cuda/functions.h"

namespace warpsight {
namespace {

constexpr int kNewestMajor = 13, kOldestMajor = 12;
constexpr const char* kWheelFolders[] = {"cu13/lib", "cuda_cupti/lib", "cu12/lib"};

std::string soname(int major) { return "libcupti.so." + std::to_string(major); }

void add(std::vector<std::string>* folders, const std::string& folder) {
  for (const auto& known : *folders) {
    if (known == folder) return;
  }
  folders->push_back(folder);
}

void add_wheels(std::vector<std::string>* folders, const std::string& site_packages) {
  for (const char* folder : kWheelFolders) add(folders, site_packages + "/nvidia/" + folder);
}

void add_matches(std::vector<std::string>* folders, const std::string& pattern, bool wheels) {
  glob_t found = {};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; ++i) {
      wheels ? add_wheels(folders, found.gl_pathv[i]) : add(folders, found.gl_pathv[i]);
    }
  }
  globfree(&found);
}

// Site-packages folders of libraries that are mapped now: .../nvidia/<wheel>/lib/… and .../torch/lib/….
void add_beside_mapped(std::vector<std::string>* folders) {
  FILE* maps = fopen("/proc/self/maps", "re");
  if (maps == nullptr) return;
  char line[PATH_MAX + 128];
  while (fgets(line, sizeof line, maps) != nullptr) {
    char* path = strchr(line, '/');
    if (path == nullptr) continue;
    for (const char* marker : {"/nvidia/", "/torch/lib/", "/jaxlib/", "/cupy/"}) {
      char* at = strstr(path, marker);
      if (at == nullptr || strstr(at, ".so") == nullptr) continue;
      add_wheels(folders, std::string(path, static_cast<size_t>(at - path)));
      break;
    }
  }
  fclose(maps);
}

void add_prefix(std::vector<std::string>* folders, const std::string& prefix) {
  add_matches(folders, prefix + "/lib/python3*/site-packages", true);
  add_matches(folders, prefix + "/lib/python3*/dist-packages", true);
}

void add_toolkit(std::vector<std::string>* folders, const std::string& root) {
  add(folders, root + "/extras/CUPTI/lib64");
  add(folders, root + "/lib64");
  add(folders, root + "/lib");
}

std::vector<std::string> folders_to_search() {
  std::vector<std::string> folders;
  add_beside_mapped(&folders);
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    if (const char* prefix = getenv(variable)) add_prefix(&folders, prefix);
  }
  char executable[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", executable, sizeof executable - 1);
  if (length > 0) {
    const std::string path(executable, static_cast<size_t>(length));
    const std::string bin = path.substr(0, path.rfind('/'));
    add_prefix(&folders, bin.substr(0, bin.rfind('/')));
  }
  add_prefix(&folders, "/usr/local");
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* root = getenv(variable)) add_toolkit(&folders, root);
  }
  add_toolkit(&folders, "/usr/local/cuda");
  add_matches(&folders, "/usr/local/cuda-1[23]*/extras/CUPTI/lib64", false);
  add_matches(&folders, "/usr/local/cuda-1[23]*/lib64", false);
  return folders;
}

FoundCupti found(void* handle) {
  FoundCupti result;
  result.handle = handle;
  result.path = loaded_file(handle);
  return result;
}

int major_of(const std::string& path) {
  const size_t at = path.rfind("libcupti.so.");
  return at == std::string::npos ? 0 : atoi(path.c_str() + at + strlen("libcupti.so."));
}

}  // namespace

std::string loaded_file(void* handle) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || map->l_name == nullptr) return "";
  char resolved[PATH_MAX];
  return realpath(map->l_name, resolved) != nullptr ? resolved : map->l_name;
}

int driver_cuda_major(void* libcuda) {
  const std::string path = loaded_file(libcuda);
  const size_t at = path.rfind("libcuda.so.");
  const int branch = at == std::string::npos ? 0 : atoi(path.c_str() + at + strlen("libcuda.so."));
  if (branch >= 580) return 13;
  if (branch >= 525) return 12;
  if (branch >= 450) return 11;
  int version = 0;
  if (driver().get_version == nullptr || driver().get_version(&version) != CUDA_SUCCESS) return 0;
  return version / 1000;
}

FoundCupti find_cupti(int driver_major) {
  if (const char* path = getenv("WARPSIGHT_CUPTI")) {
    void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return found(handle);
    FoundCupti missing;
    missing.why = std::string("WARPSIGHT_CUPTI names a file that cannot be loaded: ") + dlerror();
    return missing;
  }
  const int newest = driver_major == 0 || driver_major > kNewestMajor ? kNewestMajor : driver_major;
  FoundCupti none;
  for (int major = kNewestMajor; major >= kOldestMajor; --major) {
    void* handle = dlopen(soname(major).c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    if (major <= newest) return found(handle);
    none.why = loaded_file(handle) + " is loaded by the program and newer than the driver (CUDA " +
               std::to_string(driver_major) + "); ";
  }
  const auto folders = folders_to_search();
  for (int major = newest; major >= kOldestMajor; --major) {
    for (const auto& folder : folders) {
      const std::string path = folder + "/" + soname(major);
      if (access(path.c_str(), R_OK) != 0) continue;
      if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return found(handle);
    }
  }
  for (int major = newest; major >= kOldestMajor; --major) {
    void* handle = dlopen(soname(major).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr && major_of(loaded_file(handle)) <= newest) return found(handle);
  }
  none.why += newest < kOldestMajor
                  ? "the driver is older than CUDA 12, which is not supported"
                  : "no " + soname(newest) +
                        " found beside the program, in a CUDA toolkit or on the "
                        "loader's path; pip install 'warpsight[nvidia]' or set WARPSIGHT_CUPTI";
  return none;
}

}  // namespace warpsight
