#include "maca/find_mcpti.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "cuda/find_cupti.h"

namespace warpsight {
namespace {

constexpr const char* kLibrary = "libmcpti.so";
constexpr const char* kRuntime = "libmcruntime.so";

struct Sought {
  const char* name;
  std::string path;
};

int compare(dl_phdr_info* info, size_t, void* data) {
  auto* sought = static_cast<Sought*>(data);
  const char* slash = strrchr(info->dlpi_name, '/');
  const char* file = slash != nullptr ? slash + 1 : info->dlpi_name;
  if (strncmp(file, sought->name, strlen(sought->name)) != 0) return 0;
  sought->path = info->dlpi_name;
  return 1;
}

// A library that is in the process under this file name, a version behind it or not; nothing is looked for on
// the disk, because this is asked again and again.
void* loaded(const char* name) {
  Sought sought = {name, ""};
  return dl_iterate_phdr(compare, &sought) != 0 ? dlopen(sought.path.c_str(), RTLD_LAZY | RTLD_NOLOAD)
                                                : nullptr;
}

FoundMcpti found(void* handle) {
  FoundMcpti result;
  result.handle = handle;
  result.path = loaded_file(handle);
  return result;
}

void add_toolkit(std::vector<std::string>* folders, const std::string& root) {
  folders->push_back(root + "/lib");
  folders->push_back(root + "/lib64");
}

// The runtime's own folder first: the two libraries of one SDK belong together.
std::vector<std::string> folders_to_search(void* runtime) {
  std::vector<std::string> folders;
  const std::string beside = runtime != nullptr ? loaded_file(runtime) : "";
  if (beside.find('/') != std::string::npos) folders.push_back(beside.substr(0, beside.rfind('/')));
  for (const char* variable : {"MACA_PATH", "MACA_ROOT", "MACA_HOME"}) {
    if (const char* root = getenv(variable)) add_toolkit(&folders, root);
  }
  add_toolkit(&folders, "/opt/maca");
  glob_t versions = {};
  if (glob("/opt/maca-*", 0, nullptr, &versions) == 0) {
    for (size_t i = versions.gl_pathc; i-- > 0;) add_toolkit(&folders, versions.gl_pathv[i]);
  }
  globfree(&versions);
  return folders;
}

}  // namespace

void* loaded_maca_runtime() { return loaded(kRuntime); }

FoundMcpti find_mcpti(void* runtime) {
  FoundMcpti none;
  if (const char* path = getenv("WARPSIGHT_MCPTI")) {
    if (void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)) return found(handle);
    none.why = std::string("WARPSIGHT_MCPTI names a file that cannot be loaded: ") + dlerror();
    return none;
  }
  if (void* handle = loaded(kLibrary)) return found(handle);
  std::string refused;
  for (const auto& folder : folders_to_search(runtime)) {
    const std::string path = folder + "/" + kLibrary;
    if (access(path.c_str(), R_OK) != 0) continue;
    if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return found(handle);
    refused = std::string("; one cannot be loaded: ") + dlerror();
  }
  if (void* handle = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL)) return found(handle);
  none.why =
      "no libmcpti.so found beside MACA's runtime, in $MACA_PATH, in /opt/maca or on the loader's path; "
      "install the SDK's mcpti package or set WARPSIGHT_MCPTI" +
      refused;
  return none;
}

}  // namespace warpsight
