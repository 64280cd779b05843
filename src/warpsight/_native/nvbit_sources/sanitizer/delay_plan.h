// A delay plan as the launcher hands it over: lines of words, written by warpsight/race/delays.py.
//
//   rule SEED THRESHOLD FLOOR CEILING DEPTH STEPS    see delay_rule.h
//   where WARPS RANKS                     bit masks of warps of a block, and of blocks of a cluster
//   blocks LOW HIGH                       blocks that wait, ascending; none: all
//   stream NUMBER                         streams whose launches wait, in the order of their first; none: all
//   code CHECKSUM NAME                    code that is known under a name, whether or not it has points
//   point PC KIND NUMBER CHECKSUM NAME    in the function of this code and name
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sanitizer/event_format.h"

namespace warpsight {

// The class of points at which the host waits before it launches.
constexpr uint32_t kHostLaunch = 65;

struct DelayPoint {
  uint32_t pc = 0;  // in the function
  uint32_t kind = 0;
  uint32_t number = 0;
};

struct DelayPlan {
  WsRule rule = {};
  uint32_t warps = ~0u, ranks = ~0u;
  std::vector<WsBlocks> blocks;
  std::set<uint32_t> streams;
  std::map<std::string, std::set<std::string>> known;  // checksums of the code of each name
  // By name and checksum.
  std::map<std::pair<std::string, std::string>, std::vector<DelayPoint>> functions;

  // False when the file cannot be read.
  bool read(const std::string& path);
  // Of a function by name and checksum.
  const std::vector<DelayPoint>& points_of(const std::pair<std::string, std::string>& code) const;
};

}  // namespace warpsight
