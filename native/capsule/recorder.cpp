#include "capsule/recorder.h"

#include <fnmatch.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstring>

namespace warpsight {
namespace {

#define CBID(name) CUPTI_DRIVER_TRACE_CBID_##name

// The operation that this thread's call is, between its start and its end.
struct Current {
  bool active = false;  // the recorder's lock is held
  bool last = false;    // the range ends with it
  bool final = false;   // and no other comes after it
  uint32_t cbid = 0;
};
thread_local Current t_current;
// A wrapper's information about the launch that this thread is about to make.
enum class Counted : uint8_t { no, left_out, chosen };
thread_local Counted t_counted = Counted::no;
thread_local bool t_range = false;  // the range that is cut out began on this thread
thread_local int t_depth = 0;       // ranges of its name on this thread, from that one inwards

bool loads_module(uint32_t cbid) {
  return cbid == CBID(cuModuleLoad) || cbid == CBID(cuModuleLoadData) || cbid == CBID(cuModuleLoadDataEx) ||
         cbid == CBID(cuModuleLoadFatBinary);
}

bool begins_capture(uint32_t cbid) {
  return cbid == CBID(cuStreamBeginCapture) || cbid == CBID(cuStreamBeginCapture_ptsz) ||
         cbid == CBID(cuStreamBeginCapture_v2) || cbid == CBID(cuStreamBeginCapture_v2_ptsz) ||
         cbid == CBID(cuStreamBeginCaptureToGraph) || cbid == CBID(cuStreamBeginCaptureToGraph_ptsz);
}

bool ends_capture(uint32_t cbid) {
  return cbid == CBID(cuStreamEndCapture) || cbid == CBID(cuStreamEndCapture_ptsz);
}

// The image that a call loads, if it is given in memory and may be text.
const void* loaded_image(uint32_t cbid, const void* params) {
  if (cbid == CBID(cuModuleLoadData)) return static_cast<const cuModuleLoadData_params*>(params)->image;
  if (cbid == CBID(cuModuleLoadDataEx)) return static_cast<const cuModuleLoadDataEx_params*>(params)->image;
  return nullptr;
}

// Programs may ask that while they capture, and no callback follows it.
bool capturing(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return cu().cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

// Waiting for the GPU then would break the program's capture.
constexpr char kCapturing[] = "the program captures a graph in another stream while the work runs";

bool is_wait(WorkKind kind) {
  return kind == WorkKind::stream_wait || kind == WorkKind::event_wait || kind == WorkKind::context_wait;
}

}  // namespace

CapsuleRecorder::CapsuleRecorder(CapsuleRequest request)
    : request_(std::move(request)),
      modules_(request_, &output_),
      graphs_([this](CUfunction function) {
        const Kernel* const kernel = request_.range.empty() ? modules_.kernel(function, nullptr) : nullptr;
        return kernel != nullptr && kernel->wanted;
      }),
      snapshots_(&output_, request_.keep == Keep::all, request_.shadow),
      recent_(request_.hangs ? new RecentLaunches : nullptr),
      armed_(request_.signal == 0 && !request_.trigger) {}

bool CapsuleRecorder::start() { return output_.create(request_.folder); }

void CapsuleRecorder::on_driver(uint32_t cbid, const CUpti_CallbackData& call) {
  if (OwnCalls::here() || done()) return;
  static const auto& is_work = *[] {  // never destroyed: programs call us at their end
    auto* const found = new std::vector<bool>(CUPTI_DRIVER_TRACE_CBID_SIZE);
    for (const auto* calls : {&writing_calls(), &ordering_calls()})
      for (uint32_t id : *calls) (*found)[id] = true;
    return found;
  }();
  const bool entering = call.callbackSite == CUPTI_API_ENTER;
  if (cbid < is_work.size() && is_work[cbid]) {
    entering ? enter_work(cbid, call) : exit_work(cbid, call);
    return;
  }
  const bool failed = !entering && call.functionReturnValue != nullptr &&
                      *static_cast<const CUresult*>(call.functionReturnValue) != CUDA_SUCCESS;
  if (entering ? begins_capture(cbid) : failed && begins_capture(cbid))
    captures_.fetch_add(entering ? 1 : -1);
  if (!entering && ends_capture(cbid)) captures_.fetch_sub(1);
  if (entering) {
    if (loads_module(cbid)) modules_.load_begins(loaded_image(cbid, call.functionParams));
    if (state_.load(std::memory_order_acquire) == State::open)
      if (const uint64_t address = Memory::freed_by(cbid, call.functionParams)) before_free(address);
    return;
  }
  if (failed) return;
  const auto& graph_calls = Graphs::calls();
  if (loads_module(cbid)) {
    modules_.load_ended(**static_cast<CUmodule* const*>(call.functionParams));
  } else if (cbid == CBID(cuTexObjectCreate) || cbid == CBID(cuSurfObjectCreate) ||
             cbid == CBID(cuTexRefSetAddress_v2) || cbid == CBID(cuTexRefSetArray)) {
    textures_.store(true, std::memory_order_relaxed);
  } else if (std::find(graph_calls.begin(), graph_calls.end(), cbid) != graph_calls.end()) {
    graphs_.on_exit(cbid, call.functionParams, call.functionName);
  } else {
    memory_.on_exit(cbid, call.functionParams, call);
    if (!prepared_.load(std::memory_order_relaxed) && call.context != nullptr) prepare(call.context);
    if (request_.contents) snapshots_.expect(memory_.bytes());
  }
}

Followed CapsuleRecorder::needed() const {
  const bool launches_count = request_.range.empty() && armed_.load(std::memory_order_relaxed);
  return launches_count || request_.hangs ? Followed::writes : Followed::memory;
}

void CapsuleRecorder::armed() {
  std::lock_guard<std::timed_mutex> lock(mutex_);
  if (state_.load() != State::waiting || cut_hung()) return;
  if (request_.range.empty()) follow(needed());
}

void CapsuleRecorder::on_resource(uint32_t id, const CUpti_ResourceData& data) {
  if (id == CUPTI_CBID_RESOURCE_MODULE_LOADED && !Reach::loading())
    modules_.loaded(data.context, *static_cast<const CUpti_ModuleResourceData*>(data.resourceDescriptor));
  if (id == CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING)
    modules_.unloading(data.context, *static_cast<const CUpti_ModuleResourceData*>(data.resourceDescriptor));
  if (id == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING && !OwnCalls::here()) {
    std::lock_guard<std::timed_mutex> lock(mutex_);
    if (state_.load() == State::open && data.context == context_) end_early("its context ended");
    snapshots_.finish();
    snapshots_.forget(data.context);
  }
}

// The memory that a launch, copy or fill outside the range may write.
void CapsuleRecorder::note(const Work& work, const Kernel* kernel, const char* function, CUcontext context) {
  if (recent_ != nullptr && (work.kind == WorkKind::graph || kernel != nullptr))
    recent_->add(context, work, kernel);
  if (work.kind == WorkKind::copy || work.kind == WorkKind::set)
    return notes_.add(function, &work.destination, 1);
  if (work.kind == WorkKind::launch && kernel != nullptr) note_launch(*kernel, work.params);
}

// Notes that would be overwritten before the first launch that is cut out are left out.
void CapsuleRecorder::note_launch(const Kernel& kernel, void** params) {
  if (params == nullptr || (!request_.hangs && request_.range.empty() &&
                            matched_.load(std::memory_order_relaxed) + Notes::kNotes < request_.first))
    return;
  constexpr size_t kMostWords = 16;  // of each parameter that are looked at
  uint64_t addresses[Notes::kAddresses];
  size_t count = 0;
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    const size_t words = std::min(kMostWords, kernel.params[i].second / sizeof(uint64_t));
    for (size_t word = 0; word < words && count < Notes::kAddresses; ++word) {
      uint64_t value;
      memcpy(&value, static_cast<const char*>(params[i]) + word * sizeof value, sizeof value);
      if (memory_.plausible(value)) addresses[count++] = value;
    }
  }
  notes_.add(kernel.name.c_str(), addresses, count);
}

// The kernel that searches memory is made before the program is held for the first time.
void CapsuleRecorder::prepare(CUcontext context) {
  if (request_.everything || captures_.load(std::memory_order_relaxed) > 0 || prepared_.exchange(true))
    return;
  OwnCalls own;
  std::lock_guard<std::timed_mutex> lock(mutex_);
  reach_.prepare(context);  // failures here are reported when the function is needed
  if (request_.contents) snapshots_.prepare(context);
}

bool CapsuleRecorder::wants_wrappers() {
  const bool wants = request_.range.empty() && recent_ == nullptr;
  by_wrappers_.store(wants, std::memory_order_relaxed);
  return wants;
}

bool CapsuleRecorder::runs(const Work& work) const {
  return captures_.load(std::memory_order_relaxed) == 0 || is_wait(work.kind) || !capturing(work.stream);
}

// Count each launch once: in its wrapper, or in the callback if no wrapper reported it.
void CapsuleRecorder::before_launch(uint32_t cbid, const void* params) {
  if (OwnCalls::here()) return;
  t_counted = Counted::no;
  if (!by_wrappers_.load(std::memory_order_acquire) || !armed_.load(std::memory_order_relaxed)) return;
  t_counted = Counted::left_out;
  KernelLaunch launch;
  if (kernel_launch_of(cbid, params, &launch)) {
    if (captures_.load(std::memory_order_relaxed) != 0 && capturing(launch.stream)) return;
    const Kernel* const kernel = modules_.kernel(launch.function, nullptr);
    if (kernel == nullptr) return;
    if (!kernel->wanted || !is_chosen()) return note_launch(*kernel, launch.params);
  } else {
    const Work work = work_of(cbid, params);
    if (!runs(work)) return;
    if (!counts(work, nullptr)) return note(work, nullptr, nullptr, nullptr);
  }
  t_counted = Counted::chosen;
  std::lock_guard<std::mutex> lock(wrappers_mutex_);
  follow(Followed::writes);  // CUPTI reports this one, too
  by_wrappers_.store(false, std::memory_order_release);
}

// Once wrappers have reported this many launches without missing one, CUPTI is not needed.
void CapsuleRecorder::compare_wrappers(bool told) {
  constexpr int kEnough = 64;
  if (!told) return told_.store(INT_MIN, std::memory_order_relaxed);
  if (told_.fetch_add(1, std::memory_order_relaxed) < kEnough) return;
  std::unique_lock<std::mutex> lock(wrappers_mutex_, std::try_to_lock);  // a callback waits for nothing
  if (lock.owns_lock() && by_wrappers_.load(std::memory_order_relaxed)) follow(Followed::copies);
}

void CapsuleRecorder::enter_work(uint32_t cbid, const CUpti_CallbackData& call) {
  const State state = state_.load(std::memory_order_acquire);
  const Counted counted = std::exchange(t_counted, Counted::no);
  const Work work = work_of(cbid, call.functionParams);
  if (work.kind == WorkKind::none || (state == State::waiting && work.kind >= WorkKind::record)) return;
  if (by_wrappers_.load(std::memory_order_relaxed) && is_launch(cbid))
    compare_wrappers(counted != Counted::no);
  if (counted == Counted::left_out && state == State::waiting) return;
  const Kernel* const kernel =
      work.kind == WorkKind::launch ? modules_.kernel(work.function, call.symbolName) : nullptr;
  const bool may_count =
      request_.range.empty() && (kernel == nullptr ? work.kind == WorkKind::graph : kernel->wanted);
  if ((may_count || state == State::open) && !runs(work)) return;
  const bool candidate = counted == Counted::no ? counts(work, kernel) : counted == Counted::chosen;
  if (!candidate && state != State::open) return note(work, kernel, call.functionName, call.context);
  mutex_.lock();  // until the call ends
  const Choice choice = candidate ? next_choice() : Choice{};
  if (choice.wanted && state_.load() == State::waiting) open(call.context, choice.number);
  if (state_.load() == State::open) begin_operation(work, kernel, call);
  if (state_.load() != State::open || is_wait(work.kind)) {
    mutex_.unlock();
    return;
  }
  t_current = {true, choice.last, choice.final, cbid};
}

void CapsuleRecorder::exit_work(uint32_t cbid, const CUpti_CallbackData& call) {
  if (!t_current.active || t_current.cbid != cbid) return;
  t_current.active = false;
  end_operation(call.functionReturnValue == nullptr ||
                *static_cast<const CUresult*>(call.functionReturnValue) == CUDA_SUCCESS);
  if (t_current.last && state_.load() == State::open) close();
  if (t_current.final && state_.load() == State::waiting) finish();
  mutex_.unlock();
}

void CapsuleRecorder::open(CUcontext context, uint64_t number) {
  context_ = context;
  OwnCalls own;
  if (captures_.load() > 0) return refuse(kCapturing);
  follow(Followed::work);
  cu().synchronize();
  for (CUevent& event : clock_)
    if (event == nullptr) cu().cuEventCreate(&event, CU_EVENT_DEFAULT);
  begin_ns_ = time_ns();
  if (request_.keep != Keep::all) {
    log_end_ = output_.log_end();
    output_.log(Json("range").number("number", number).done());
  }
  state_.store(State::open, std::memory_order_release);
  const std::string why = describe_device(context);
  if (!why.empty()) refuse(why);
}

bool CapsuleRecorder::asked_for(const char* range) const {
  return !done() && !request_.range.empty() && fnmatch(request_.range.c_str(), range, 0) == 0;
}

void CapsuleRecorder::range_begins(const char* name) {
  std::lock_guard<std::timed_mutex> lock(mutex_);
  if (t_range && state_.load() == State::open) {  // within the one that is cut out, or one more of it
    if (t_depth == 0) range_ = name, matched_.fetch_add(1, std::memory_order_relaxed);
    t_depth += range_ == name ? 1 : 0;
    return;
  }
  CUcontext context = nullptr;
  if (!armed_.load(std::memory_order_relaxed)) return;
  if (state_.load() != State::waiting || cu().cuCtxGetCurrent(&context) != CUDA_SUCCESS) return;
  const uint64_t number = matched_.fetch_add(1, std::memory_order_relaxed);
  if (number + 1 == request_.first) follow(Followed::writes);  // so that writers of memory are known
  if (number < request_.first || number >= request_.end) return;
  t_range = true, t_depth = 1, range_ = name;
  if (context == nullptr) return refuse("the range began before the program had a CUDA context");
  open(context, number);
}

void CapsuleRecorder::range_ends(const char* name) {
  if (!t_range) return;  // another thread's range
  std::lock_guard<std::timed_mutex> lock(mutex_);
  if (range_ != name || t_depth == 0 || --t_depth != 0) return;  // one within
  if (request_.keep == Keep::all && state_.load() == State::open && matched_.load() < request_.end) return;
  t_range = false;
  if (state_.load() == State::open) close();
  if (state_.load() == State::waiting && matched_.load() == request_.end) finish();
}

void CapsuleRecorder::refuse(const std::string& why) {
  output_.log(Json("refused").text("why", why).done());
  output_.flush();
  state_.store(State::done, std::memory_order_release);
  modules_.stop();
  follow(Followed::nothing);
  snapshots_.end(hung_, [] {});
}

void CapsuleRecorder::close() {
  OwnCalls own;
  if (captures_.load() > 0) return refuse(kCapturing);
  InContext here(context_);
  const CUresult result = cu().synchronize();
  if (result != CUDA_SUCCESS) return refuse(failure("the work that was to be cut out", result));
  const bool slower = request_.keep == Keep::slowest && (device_ns_ > slowest_ns_ || slowest_ns_ == 0);
  if (request_.keep != Keep::all && !slower) return forget_range();
  const uint64_t begin = time_ns();
  std::vector<Held*> left;
  for (auto& entry : held_)
    if (!entry.second.after) left.push_back(&entry.second);
  const std::string why = take(left, globals_, "after");
  held_ns_ += time_ns() - begin;
  if (!why.empty()) return refuse(why);
  for (const auto& text : incomplete_) output_.log(Json("incomplete").text("what", text).done());
  slower ? keep_range() : finish();
}

void CapsuleRecorder::begin_operation(const Work& work, const Kernel* kernel,
                                      const CUpti_CallbackData& call) {
  OwnCalls own;
  if (!is_wait(work.kind) && call.context != context_)
    return refuse("work on a second context or GPU is in the range: " + std::string(call.functionName));
  if (work.kind == WorkKind::unsupported)
    return refuse(std::string(call.functionName) + " is in the range, and cannot be cut out");
  if (captures_.load() > 0 && !is_wait(work.kind)) return refuse(kCapturing);
  const uint64_t host_ns = time_ns() - begin_ns_;
  if (!is_wait(work.kind)) {
    const CUresult result = cu().synchronize();
    if (result != CUDA_SUCCESS) return refuse(failure("work before the range", result));
  }
  const uint64_t begin = time_ns();
  Json json("operation");
  Addresses addresses;
  looked_at_.clear();
  pending_stream_ = work.stream;
  std::string why = describe(work, kernel, nullptr, &json, &addresses);
  if (why.empty()) why = hold(addresses);
  held_ns_ += time_ns() - begin;
  if (!why.empty()) return refuse(why);
  json.number("host_time", host_ns);
  if (is_wait(work.kind)) return output_.log(json.done());
  pending_ = json.done();
  // A first launch may keep the host busy for long, and so may other programs: neither makes work slow.
  const bool launches = work.kind == WorkKind::launch || work.kind == WorkKind::graph;
  if (request_.keep == Keep::slowest && launches) reach_.close_gate(context_, pending_stream_);
  timed_ = work.kind != WorkKind::record && work.kind != WorkKind::wait &&
           cu().cuEventRecord(clock_[0], pending_stream_) == CUDA_SUCCESS;
}

void CapsuleRecorder::end_operation(bool succeeded) {
  if (pending_.empty()) return;
  OwnCalls own;
  float milliseconds = 0;
  CUresult result = timed_ ? cu().cuEventRecord(clock_[1], pending_stream_) : CUDA_SUCCESS;
  reach_.open_gate();
  if (timed_) {
    if (succeeded && !await(&result)) return;
    timed_ = result == CUDA_SUCCESS && cu().elapsed(&milliseconds, clock_[0], clock_[1]) == CUDA_SUCCESS;
    device_ns_ += timed_ ? static_cast<uint64_t>(milliseconds * 1e6) : 0;
  }
  if (succeeded) {
    if (timed_) {
      pending_.pop_back();
      pending_ += ",\"device_time\":" + std::to_string(static_cast<uint64_t>(milliseconds * 1e6)) + "}";
    }
    output_.log(pending_);
  }
  pending_.clear();
}

void CapsuleRecorder::before_free(uint64_t address) {
  std::lock_guard<std::timed_mutex> lock(mutex_);
  const auto found = held_.find(address);
  if (state_.load() != State::open || found == held_.end() || found->second.after) return;
  OwnCalls own;
  if (captures_.load() > 0) return refuse(kCapturing);
  InContext here(context_);
  cu().synchronize();
  const std::string why = take({&found->second}, {}, "after");
  if (!why.empty()) refuse(why);
}

void CapsuleRecorder::incomplete(const std::string& what) {
  if (std::find(incomplete_.begin(), incomplete_.end(), what) == incomplete_.end())
    incomplete_.push_back(what);
}

void CapsuleRecorder::end_early(const char* why) {
  incomplete(std::string(why) + " within the range");
  close();
}

void CapsuleRecorder::at_exit() {
  constexpr std::chrono::seconds kPatience(5);  // a thread may wait for the GPU for ever
  {
    std::unique_lock<std::timed_mutex> lock(mutex_, kPatience);
    if (!lock.owns_lock()) return;
    if (state_.load() == State::open) end_early("the program ended");
    if (state_.load() == State::waiting) finish();
  }
  snapshots_.finish();
}

}  // namespace warpsight
