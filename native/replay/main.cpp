// warpsight-replay SCRIPT DATA FOLDER: runs recorded operations again, at their original addresses, and
// writes the results to FOLDER. `warpsight replay` creates the script from a checked capsule.
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>

#include "replay/outputs.h"
#include "replay/serve.h"
#include "replay/timing.h"

namespace warpsight::replay {
namespace {

bool open_device(const Driver& driver, const Script& script, Memory* memory, Report* report,
                 CUdevice* device) {
  int major = 0, minor = 0;
  CUcontext context = nullptr;
  char name[256] = "";
  int count = 0;
  memory->release();
  if (!report->check(driver, driver.init(0), "cuInit") || !memory->reserve() ||
      !report->check(driver, driver.device_count(&count), "the device"))
    return false;
  if (script.header->device >= static_cast<uint32_t>(count)) {
    report->line("failed -1 device number %u is not there: this machine has %d (--device)",
                 script.header->device, count);
    return false;
  }
  if (!report->check(driver, driver.device_get(device, static_cast<int>(script.header->device)),
                     "the device") ||
      !report->check(driver, driver.device_name(name, sizeof name, *device), "the device") ||
      !report->check(driver,
                     driver.device_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, *device),
                     "the device") ||
      !report->check(driver,
                     driver.device_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, *device),
                     "the device"))
    return false;
  report->line("device %d %d %s", major, minor, name);
  const uint64_t stack = script.header->stack_bytes, heap = script.header->heap_bytes;
  return report->check(driver, driver.context_retain(&context, *device), "the context") &&
         report->check(driver, driver.context_set(context), "the context") &&
         (stack == 0 ||
          report->check(driver, driver.set_limit(CU_LIMIT_STACK_SIZE, stack), "the stack size")) &&
         (heap == 0 ||
          report->check(driver, driver.set_limit(CU_LIMIT_MALLOC_HEAP_SIZE, heap), "the heap size"));
}

class Replay {
 public:
  Replay(const Driver& driver, const Script& script, Memory* memory, Report* report, const char* folder)
      : driver_(driver),
        script_(script),
        memory_(*memory),
        report_(report),
        program_(driver, script, report),
        outputs_(script, memory, &program_, report, folder),
        timing_(driver, script, &program_, report) {}

  bool run() {
    if (!program_.load() || !restore()) return false;
    for (unsigned variant = 0; variant < script_.header->variants; ++variant)
      if (!program_.make_graphs(variant)) return false;
    if (script_.has(kServe)) return serve(driver_, script_, &memory_, &program_, report_);
    if (!outputs_.open() || !timing_.prepare()) return false;
    if (script_.has(kStepwise)) return run_stepwise();
    const Header& header = *script_.header;
    // Variants take turns, so that a change of clocks or temperature meets them alike.
    for (uint32_t run = 0; run < header.runs + header.timed_runs; ++run)
      for (unsigned variant = 0; variant < header.variants; ++variant)
        if (!run_once(static_cast<int>(run), variant)) return false;
    return true;
  }

 private:
  bool restore(int run = 0) { return memory_.restore(run) && program_.restore_globals(); }

  bool run_once(int run, unsigned variant) {
    const bool whole = static_cast<uint32_t>(run) < script_.header->runs;
    if (!restore(run) || !(whole ? timing_.run_whole(run, variant) : timing_.run_timed(run, variant)))
      return false;
    if (script_.has(kCheckGaps) && !memory_.check_gaps(run)) return false;
    return outputs_.compare(run, variant) && program_.compare_globals(run, variant);
  }

  bool run_stepwise() {
    for (int run = 0; run < static_cast<int>(script_.header->runs); ++run) {
      if (!restore() || !outputs_.compare_step(run, -1)) return false;
      for (size_t i = 0; i < program_.operations(); ++i)
        if (!program_.issue(i, 0) ||
            !report_->check(driver_, driver_.context_wait(), "running", static_cast<long long>(i)) ||
            !outputs_.compare_step(run, static_cast<long long>(i)))
          return false;
    }
    return true;
  }

  const Driver& driver_;
  const Script& script_;
  Memory& memory_;
  Report* const report_;
  Program program_;
  Outputs outputs_;
  Timing timing_;
};

int replay(const char* script_path, const char* data_path, const char* folder) {
  Report report;
  Script script;
  if (!report.open(folder)) return perror(folder), kBadScript;
  if (const char* wrong = script.open(script_path, data_path)) {
    report.line("failed -1 script %s", wrong);
    return kBadScript;
  }
  Driver driver;
  Memory memory(driver, script, &report);
  if (!memory.hold()) return kAddressTaken;
  const char* missing = nullptr;
  if (!driver.load(&missing)) {
    report.line("failed -1 driver %s", missing);
    return kNoDevice;
  }
  CUdevice device = 0;
  if (!open_device(driver, script, &memory, &report, &device))
    return report.addresses_taken() ? kAddressTaken : kNoDevice;
  if (!memory.map(device)) return report.addresses_taken() ? kAddressTaken : kFailed;
  if (!Replay(driver, script, &memory, &report, folder).run()) return kFailed;
  report.line("end");
  return kDone;
}

}  // namespace
}  // namespace warpsight::replay

int main(int count, char** arguments) {
  if (count != 4) {
    fprintf(stderr,
            "usage: warpsight-replay SCRIPT DATA FOLDER; it is started by `warpsight replay CAPSULE`\n");
    return warpsight::replay::kBadScript;
  }
  const rlimit no_dump = {0, 0};
  setrlimit(RLIMIT_CORE, &no_dump);  // it would hold the contents of the recorded memory
  const int code = warpsight::replay::replay(arguments[1], arguments[2], arguments[3]);
  fflush(stdout);
  if (code == warpsight::replay::kDone)
    return code;  // injected tools write their results as the process exits
  _Exit(code);    // after a fault the driver's own exit handlers can hang
}
