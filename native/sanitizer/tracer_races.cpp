// What the tracer does for race detection on the device: the code of kernels, and checks compiled into it.
#include "sanitizer/tracer.h"

namespace warpsight {

// Whether a module was compiled with its checks.
bool Tracer::take_checks(const Sanitizer_ResourceModuleData& data, Module* module) {
  const CompiledModule* const found =
      compiled_ != nullptr ? compiled_->find({data.pCubin, data.cubinSize}) : nullptr;
  if (found == nullptr) return false;
  std::lock_guard<std::mutex> lock(mutex_);
  Context* const context = context_of(data.context);
  CUdeviceptr variable = 0;
  if (context == nullptr || !find_variable(data.module, "ws_places", &variable)) {
    file_.lose("modules with compiled checks that could not be prepared were not looked at", 1);
    return true;
  }
  module->compiled = found;
  module->places = reinterpret_cast<void*>(variable);
  module->number = modules_seen_++;
  file_.describe("{\"kind\":\"sites\",\"module\":" + std::to_string(module->number) +
                 ",\"kernels\":" + found->sites + "}");
  file_.add_cubin(module->number, data.pCubin, data.cubinSize);
  modules_[data.module] = std::move(*module);
  return true;
}

// Writes where a launch is described, for kernels with compiled checks; null for one that is not looked at.
// In the launch's stream, before it: so is what the module's checks need, the places of their context. To
// wait for another stream could wait for a kernel that waits for this launch.
SanitizerResult Tracer::set_place(const Context& context, Module* module, const Sanitizer_LaunchData& data,
                                  Sanitizer_StreamHandle stream, const WsLaunch* launch) {
  SanitizerResult result = SANITIZER_SUCCESS;
  if (module->streams.insert(stream).second) {
    WsPlace* places = context.places;
    result = functions_.copy_to_device(module->places, &places, sizeof places, stream);
  }
  WsPlace place = {data.gridId, launch};
  if (result == SANITIZER_SUCCESS)
    result =
        functions_.copy_to_device(context.places + data.gridId % WS_PLACES, &place, sizeof place, stream);
  return result;
}

// Reads the code of a kernel, and of the module's other functions, which it may call.
void Tracer::read_code(CUmodule handle, Context* context, const Module& module, const std::string& kernel) {
  if (context->races->knows(handle, kernel)) return;
  if (module.compiled != nullptr) {
    const auto known = module.compiled->kernels.find(kernel);
    const CompiledKernel none;
    context->races->read_compiled(
        handle, kernel, known != module.compiled->kernels.end() ? known->second : none, module.architecture);
    return;
  }
  std::vector<PlacedCode> codes;
  const auto place = [&](const std::string& name, const std::string& code) {
    uint64_t pc = 0, size = 0;
    if (functions_.function_pc(handle, name.c_str(), &pc, &size) == SANITIZER_SUCCESS && size != 0)
      codes.push_back({pc, code});  // its own functions follow
  };
  const auto own = module.codes.find(kernel);
  if (own != module.codes.end()) place(kernel, own->second);
  for (const auto& [name, code] : module.codes)
    if (codes.size() < WS_RACE_FUNCTIONS && module.kernels.count(name) == 0) place(name, code);
  context->races->read(handle, kernel, std::move(codes), module.architecture);
}

}  // namespace warpsight
