#include "sanitizer/compiled_modules.h"

#include <dlfcn.h>
#include <errno.h>
#include <generated_cuda_meta.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace warpsight {
namespace {

constexpr uint32_t kWrapper = 0x466243b1, kFatbin = 0xba55ed50, kElf = 0x464c457f;
constexpr uint16_t kPtx = 1;
constexpr size_t kLargest = 1ull << 30;
constexpr std::string_view kMark = "ws_module_";

template <class Value>
Value value_at(const char* at) {
  Value value;
  memcpy(&value, at, sizeof value);
  return value;
}

// The bytes that the driver is given, without what points to them; empty for code that has no PTX.
std::string_view image_of(const void* given, uint32_t architecture) {
  if (given == nullptr) return {};
  const char* at = static_cast<const char*>(given);
  if (value_at<uint32_t>(at) == kWrapper) {
    if (value_at<uint32_t>(at + 4) != 1) return {};  // parts that are linked when they are loaded
    at = value_at<const char*>(at + 8);
    if (at == nullptr) return {};
  }
  const uint32_t magic = value_at<uint32_t>(at);
  if (magic == kElf) return {};
  if (magic != kFatbin) {
    const size_t bytes = strnlen(at, kLargest);
    const std::string_view text(at, bytes);
    return bytes < kLargest && text.substr(0, 1 << 14).find(".version") != text.npos ? text
                                                                                     : std::string_view();
  }
  const uint64_t header = value_at<uint16_t>(at + 6), size = value_at<uint64_t>(at + 8);
  if (size > kLargest) return {};
  for (uint64_t entry = header; entry + 32 <= header + size;) {
    const uint64_t own = value_at<uint32_t>(at + entry + 4), stored = value_at<uint64_t>(at + entry + 8);
    const bool usable = value_at<uint32_t>(at + entry + 28) <= architecture;
    if (value_at<uint16_t>(at + entry) == kPtx && usable) return {at, header + size};
    if (own < 32 || stored > size) break;
    entry += own + stored;
  }
  return {};
}

// The place in a call's parameters that holds the image; null for other functions.
const void** image_in(Sanitizer_CallbackId id, void* parameters) {
  switch (id) {
    case SANITIZER_CBID_DRIVER_API_cuModuleLoadData:
      return &static_cast<cuModuleLoadData_params*>(parameters)->image;
    case SANITIZER_CBID_DRIVER_API_cuModuleLoadDataEx:
      return &static_cast<cuModuleLoadDataEx_params*>(parameters)->image;
    case SANITIZER_CBID_DRIVER_API_cuModuleLoadFatBinary:
      return &static_cast<cuModuleLoadFatBinary_params*>(parameters)->fatCubin;
    case SANITIZER_CBID_DRIVER_API_cuLibraryLoadData:
      return &static_cast<cuLibraryLoadData_params*>(parameters)->code;
    default:
      return nullptr;
  }
}

bool send_all(int to, const void* data, size_t bytes) {
  for (const char* at = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t sent = send(to, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return true;
}

bool receive_all(int from, void* data, size_t bytes) {
  for (char* at = static_cast<char*>(data); bytes > 0;) {
    const ssize_t got = recv(from, at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

// A text with its length before it.
bool receive_text(int from, std::string* text) {
  uint64_t bytes = 0;
  if (!receive_all(from, &bytes, sizeof bytes) || bytes > kLargest) return false;
  text->resize(bytes);
  return bytes == 0 || receive_all(from, &(*text)[0], bytes);
}

// Lines of a kernel's name, barriers, copies and facts, with tabs between.
std::map<std::string, CompiledKernel> kernels_of(const std::string& text) {
  std::map<std::string, CompiledKernel> found;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t name = line.find('\t');
    if (name == line.npos) continue;
    CompiledKernel kernel;
    char* at = nullptr;
    kernel.one_way = static_cast<uint32_t>(strtoul(line.c_str() + name + 1, &at, 10));
    kernel.copies = strtoul(at, &at, 10) != 0;
    for (char* next = at;; at = next) {
      const unsigned long fact = strtoul(at, &next, 10);
      if (next == at) break;
      kernel.site_facts.push_back(static_cast<uint32_t>(fact));
    }
    found[line.substr(0, name)] = std::move(kernel);
  }
  return found;
}

}  // namespace

std::vector<Sanitizer_CallbackId> CompiledModules::loads() {
  return {SANITIZER_CBID_DRIVER_API_cuModuleLoadData, SANITIZER_CBID_DRIVER_API_cuModuleLoadDataEx,
          SANITIZER_CBID_DRIVER_API_cuModuleLoadFatBinary, SANITIZER_CBID_DRIVER_API_cuLibraryLoadData};
}

void CompiledModules::replace(Sanitizer_CallbackId id, const Sanitizer_CallbackData& call) {
  if (call.callbackSite != SANITIZER_API_ENTER) return;
  // The Sanitizer hands out the parameters that the driver goes on to use.
  const void** const given = image_in(id, const_cast<void*>(call.functionParams));
  if (given == nullptr) return;
  const std::string_view image = image_of(*given, architecture_);
  if (image.empty()) return;
  const CompiledModule* const made = made_for(image);
  if (made != nullptr) *given = made->image.data();
}

const CompiledModule* CompiledModules::made_for(std::string_view image) {
  std::lock_guard<std::mutex> lock(mutex_);
  // A text may lie where another was; fat binaries are parts of the program.
  const bool stays = value_at<uint32_t>(image.data()) == kFatbin;
  const auto known = known_.find(image.data());
  if (stays && known != known_.end()) return known->second == 0 ? nullptr : modules_[known->second].get();
  auto made = std::make_unique<CompiledModule>();
  const uint32_t number = ++asked_;
  const bool can = ask(image, number, made.get());
  known_[image.data()] = can ? number : 0;
  return can ? (modules_[number] = std::move(made)).get() : nullptr;
}

bool CompiledModules::ask(std::string_view image, uint32_t number, CompiledModule* made) const {
  const int to = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (to < 0) return false;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::string facts;
  bool done = socket_.size() < sizeof address.sun_path;
  if (done) memcpy(address.sun_path, socket_.c_str(), socket_.size());
  const uint64_t head[] = {number, image.size()};
  done = done && connect(to, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
         send_all(to, head, sizeof head) && send_all(to, image.data(), image.size()) &&
         receive_text(to, &made->image) && receive_text(to, &facts) && receive_text(to, &made->sites);
  close(to);
  if (!done || made->image.empty()) return false;
  made->kernels = kernels_of(facts);
  return true;
}

const CompiledModule* CompiledModules::find(std::string_view cubin) {
  const size_t at = cubin.find(kMark);
  if (at == cubin.npos) return nullptr;
  uint32_t number = 0;
  for (size_t digit = at + kMark.size(); digit < cubin.size() && cubin[digit] >= '0' && cubin[digit] <= '9';
       ++digit)
    number = number * 10 + static_cast<uint32_t>(cubin[digit] - '0');
  std::lock_guard<std::mutex> lock(mutex_);
  const auto known = modules_.find(number);
  return known != modules_.end() ? known->second.get() : nullptr;
}

bool find_variable(CUmodule module, const char* name, CUdeviceptr* address) {
  using Get = CUresult (*)(CUdeviceptr*, size_t*, CUmodule, const char*);
  static const Get get = [] {
    void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    return library != nullptr ? reinterpret_cast<Get>(dlsym(library, "cuModuleGetGlobal_v2")) : nullptr;
  }();
  size_t bytes = 0;
  return get != nullptr && get(address, &bytes, module, name) == CUDA_SUCCESS;
}

}  // namespace warpsight
