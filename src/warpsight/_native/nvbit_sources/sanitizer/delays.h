// The delays of one context: where its points are on the device, and what is counted for them.
#pragma once

#include <cuda.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sanitizer/delay_plan.h"
#include "sanitizer/device_memory.h"

namespace warpsight {

// The code of a function: its name and checksum.
using Code = std::pair<std::string, std::string>;

// Used under the tracer's lock.
class Delays {
 public:
  Delays(const DelayPlan& plan, DeviceMemory& memory) : plan_(plan), memory_(memory) {}

  // The points of a function that is at `pc`; `place`: number of the first in its module.
  void place(CUmodule module, uint64_t pc, uint32_t place, const std::vector<DelayPoint>& points);
  void forget(CUmodule module);
  // How many launches of this code came before this one.
  uint32_t next_launch(const Code& code) { return launches_[code]++; }
  // Launches count from 0 again.
  void restart() { launches_.clear(); }
  // The plan is another: its points are placed anew.
  void change();
  // Whether the plan delays the launches of a stream; called for each launch of a function with points.
  bool stream_waits(CUstream stream);
  // What a launch's description on the device needs, copied there in the order of its stream. The result is
  // the memory's.
  int describe(CUstream stream, void* handle, uint64_t warps, WsLaunch* launch);

 private:
  struct Stream {
    uint32_t number = 0;
    bool told = false;  // the tables below were copied there before what follows in this stream
    unsigned long long* occurrences = nullptr;
    uint64_t size = 0;
  };
  int make_tables();
  int upload(void* handle);
  int grow(Stream* stream, void* handle, uint64_t counters);

  const DelayPlan& plan_;
  DeviceMemory& memory_;
  std::map<CUmodule, std::vector<WsPoint>> placed_;
  std::map<Code, uint32_t> launches_;
  std::map<CUstream, Stream> streams_;
  uint32_t places_ = 0;  // the most of a module
  // On the device: never changed while kernels may read them, so replaced where functions are added. Plans
  // have two in turn: no kernel is two plans behind.
  struct Tables {
    WsPoint* points = nullptr;
    WsBlocks* blocks = nullptr;
    size_t point_room = 0, block_room = 0;
    bool unread = true;
  };
  std::vector<WsPoint> points_;
  Tables tables_[2];
  int current_ = 0;
  bool stale_ = true;
};

}  // namespace warpsight
