#include "cuda/counters.h"

#include "cuda/pc_sampling.h"
#include "cuda/pm_sampling.h"
#include "cuda/range_metrics.h"
#include "cuda/sass_counts.h"
#include "ring/ring.h"
#include "runtime/runtime.h"

namespace warpsight {

void begin_counters(bool contexts_exist) {
  begin_pc_sampling(contexts_exist);
  begin_sass_counts(contexts_exist);
}

// CUPTI loads more libraries for a context and for counters, which exit() would unload before notifying us.
void begin_counters_of(CUcontext context) {
  sample_context(context);
  static const bool watched = (watch_exit(), true);
  (void)watched;
}

bool launches_watched() { return launches_measured() || instructions_counted() || devices_sampled(); }

void launch_begins(CUcontext context, const char* kernel, CUstream stream) {
  if (devices_sampled()) sample_device_of(context);
  if (instructions_counted()) count_from_launch(context);
  if (launches_measured()) measured_launch_begins(context, kernel, stream);
  static const bool watched = (watch_exit(), true);
  (void)watched;
}

void launch_ended(const char* name, uint32_t correlation) {
  if (launches_measured()) measured_launch_ends(name != nullptr ? intern_c(name) : 0, correlation);
}

void end_counters_of(CUcontext context) {
  end_sampling_of(context);
  end_counts_of(context);
  end_measuring_of(context);
}

void collect_counters() {
  collect_pc_samples();
  collect_device_samples();
}

uint32_t counter_window_ms(uint32_t idle_ms) { return device_window_ms(pc_window_ms(idle_ms)); }

void end_counters(bool exiting) {
  end_pc_sampling();
  end_sass_counts(exiting);
  end_device_sampling(exiting);
  end_measuring(exiting);
}

}  // namespace warpsight
