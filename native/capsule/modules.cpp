#include "capsule/modules.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>

#include "capsule/driver.h"
#include "cuda/cubin_names.h"
#include "runtime/request_lines.h"

namespace warpsight {
namespace {

constexpr size_t kCached = 64;
struct Cached {
  CUfunction handle;
  uint32_t generation;
  const Kernel* kernel;
};
thread_local Cached t_cached[kCached];
thread_local std::string t_ptx;  // that this thread's call loads
thread_local int t_loaded = -1;  // the image this thread's last module was loaded from

// The text being loaded, "" for machine code.
std::string ptx_of(const void* image) {
  constexpr size_t kMost = 16u << 20;
  const char* const text = static_cast<const char*>(image);
  if (text == nullptr) return "";
  const size_t lead = strspn(text, " \t\r\n");
  if (strncmp(text + lead, "//", 2) != 0 && strncmp(text + lead, ".version", 8) != 0) return "";
  return std::string(text, strnlen(text, kMost));
}

size_t hash_of(std::string_view name) { return std::hash<std::string_view>()(name); }

// Sorted hashes of the kernel names in a loaded module; empty if the driver does not provide them.
std::vector<size_t> kernels_of(CUmodule module) {
  unsigned count = 0;
  if (module == nullptr || cu().cuModuleGetFunctionCount(&count, module) != CUDA_SUCCESS) return {};
  std::vector<CUfunction> functions(count);
  if (count == 0 || cu().cuModuleEnumerateFunctions(functions.data(), count, module) != CUDA_SUCCESS)
    return {};
  std::vector<size_t> found;
  for (CUfunction function : functions) {
    const char* name = nullptr;
    if (cu().cuFuncGetName(&name, function) == CUDA_SUCCESS) found.push_back(hash_of(name));
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

bool Kernel::pack(void* const* given, void* const* extra, std::vector<char>* packed) const {
  packed->assign(bytes, 0);
  if (bytes == 0) return true;
  if (given != nullptr) {
    for (size_t i = 0; i < params.size(); ++i)
      memcpy(packed->data() + params[i].first, given[i], params[i].second);
    return true;
  }
  const void* buffer = nullptr;
  size_t size = 0;
  for (size_t i = 0; extra != nullptr && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = extra[i + 1];
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) size = *static_cast<const size_t*>(extra[i + 1]);
  }
  if (buffer == nullptr || size < bytes) return false;
  memcpy(packed->data(), buffer, bytes);
  return true;
}

void Modules::loaded(CUcontext context, const CUpti_ModuleResourceData& module) {
  if (stopped_.load(std::memory_order_relaxed) || module.pCubin == nullptr) return;
  const uint64_t offset = output_.append(module.pCubin, module.cubinSize);
  std::vector<size_t> kernels;
  kernels_of_cubin(
      module.pCubin, module.cubinSize,
      [](void* found, std::string_view name, std::string_view) {
        static_cast<std::vector<size_t>*>(found)->push_back(hash_of(name));
      },
      &kernels);
  std::vector<CubinVariable> variables = variables_of_cubin(module.pCubin, module.cubinSize);
  const std::pair<uint64_t, uint64_t> ptx(t_ptx.empty() ? 0 : output_.append(t_ptx.data(), t_ptx.size()),
                                          t_ptx.size());
  std::lock_guard<std::mutex> lock(mutex_);
  t_loaded = static_cast<int>(images_.size());
  for (size_t kernel : kernels) holders_.emplace(kernel, t_loaded);
  std::sort(kernels.begin(), kernels.end());
  images_.push_back({context, module.moduleId, offset, module.cubinSize, true, std::move(kernels), ptx,
                     std::move(variables)});
}

void Modules::unloading(CUcontext context, const CUpti_ModuleResourceData& module) {
  generation_.fetch_add(1);
  std::lock_guard<std::mutex> lock(mutex_);
  kernels_.clear();
  for (Image& image : images_)
    if (image.context == context && image.id == module.moduleId) image.live = false;
}

void Modules::load_begins(const void* image) {
  t_loaded = -1;
  t_ptx = ptx_of(image);
}

void Modules::load_ended(CUmodule module) {
  t_ptx.clear();
  std::lock_guard<std::mutex> lock(mutex_);
  if (t_loaded >= 0) handles_[module] = t_loaded;
}

const Kernel* Modules::kernel(CUfunction handle, const char* name) {
  const uint32_t generation = generation_.load(std::memory_order_acquire);
  Cached& cached = t_cached[(reinterpret_cast<uintptr_t>(handle) >> 4) % kCached];
  if (cached.handle == handle && cached.generation == generation) return cached.kernel;
  Kernel* found = nullptr;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto known = kernels_.find(handle);
    if (known != kernels_.end()) found = known->second;
  }
  if (found == nullptr || (name != nullptr && found->name != name)) found = resolve(handle, name);
  cached = {handle, generation, found};
  return found;
}

// Asks the driver for a handle's type: a launch takes functions and library kernels through the same
// argument.
Kernel* Modules::resolve(CUfunction handle, const char* name) {
  OwnCalls own;
  if (name == nullptr && cu().cuFuncGetName(&name, handle) != CUDA_SUCCESS &&
      cu().cuKernelGetName(&name, reinterpret_cast<CUkernel>(handle)) != CUDA_SUCCESS)
    return nullptr;
  auto* const made = new Kernel;
  made->name = name;
  made->wanted = name_matches(request_.kernels, name);
  load_begins();
  CUfunction function = handle;
  if (cu().cuFuncGetModule(&made->module, function) != CUDA_SUCCESS) {
    made->kernel = reinterpret_cast<CUkernel>(handle);
    if (cu().cuKernelGetFunction(&function, made->kernel) != CUDA_SUCCESS) function = nullptr;
    if (function != nullptr && cu().cuFuncGetModule(&made->module, function) != CUDA_SUCCESS)
      made->module = nullptr;
  }
  made->function = function;
  size_t offset = 0, size = 0;
  for (size_t i = 0; function != nullptr; ++i) {
    if (cu().cuFuncGetParamInfo(function, i, &offset, &size) != CUDA_SUCCESS) break;
    made->params.emplace_back(offset, size);
    if (offset + size > made->bytes) made->bytes = offset + size;
  }
  made->loaded = t_loaded;
  std::lock_guard<std::mutex> lock(mutex_);
  ++names_[made->name];
  return kernels_[handle] = made;
}

std::string Modules::bytes_of(const Image& image) const {
  std::string bytes(image.size, 0);
  size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got =
        pread(output_.data(), &bytes[have], bytes.size() - have, static_cast<off_t>(image.offset + have));
    if (got <= 0) return "";
    have += static_cast<size_t>(got);
  }
  return bytes;
}

// The live images that hold a kernel of that name: of several, those that hold the same kernels as its
// module.
std::vector<int> Modules::candidates(const Kernel& kernel, CUcontext context) const {
  std::vector<int> all, alike;
  const auto holders = holders_.equal_range(hash_of(kernel.name));
  for (auto holder = holders.first; holder != holders.second; ++holder) {
    const Image& image = images_[static_cast<size_t>(holder->second)];
    if (image.context == context && image.live) all.push_back(holder->second);
  }
  if (all.size() < 2) return all;
  const std::vector<size_t> kernels = kernels_of(kernel.module);
  for (int image : all)
    if (images_[static_cast<size_t>(image)].kernels == kernels) alike.push_back(image);
  return alike.empty() ? all : alike;
}

int Modules::image_of(const Kernel& kernel, CUcontext context, std::string* why) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto handle = handles_.find(kernel.module);
  if (kernel.module != nullptr && handle != handles_.end()) return handle->second;
  const std::vector<int> found = candidates(kernel, context);
  if (std::find(found.begin(), found.end(), kernel.loaded) != found.end()) return kernel.loaded;
  if (found.empty()) *why = "the module of kernel " + kernel.name + " was loaded before recording began";
  for (size_t i = 1; i < found.size(); ++i) {
    if (bytes_of(images_[static_cast<size_t>(found[i])]) == bytes_of(images_[static_cast<size_t>(found[0])]))
      continue;
    *why = "two loaded modules have a kernel " + kernel.name +
           ", and the driver does not tell which was launched";
    return -1;
  }
  return found.empty() ? -1 : found.back();
}

std::pair<uint64_t, uint64_t> Modules::extent(int image) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const Image& found = images_[static_cast<size_t>(image)];
  return {found.offset, found.size};
}

std::pair<uint64_t, uint64_t> Modules::ptx(int image) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return images_[static_cast<size_t>(image)].ptx;
}

const std::vector<CubinVariable>& Modules::variables(int image) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return images_[static_cast<size_t>(image)].variables;
}

std::vector<std::string> Modules::names() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> found;
  for (const auto& entry : names_) found.push_back(entry.first);
  return found;
}

}  // namespace warpsight
