#include "sanitizer/delay_plan.h"

#include <fstream>
#include <sstream>

namespace warpsight {
namespace {

void take(DelayPlan* plan, const std::string& word, std::istringstream& line) {
  std::string checksum, name;
  if (word == "rule") {
    WsRule* const rule = &plan->rule;
    line >> rule->seed >> rule->threshold >> rule->floor_ns >> rule->ceiling_ns >> rule->depth >> rule->steps;
  } else if (word == "where") {
    line >> plan->warps >> plan->ranks;
  } else if (word == "blocks") {
    WsBlocks range = {};
    line >> range.low >> range.high;
    plan->blocks.push_back(range);
  } else if (word == "stream") {
    uint32_t number = 0;
    line >> number;
    plan->streams.insert(number);
  } else if (word == "code") {
    line >> checksum >> name;
    plan->known[name].insert(checksum);
  } else if (word == "point") {
    DelayPoint point;
    line >> point.pc >> point.kind >> point.number >> checksum >> name;
    plan->functions[{name, checksum}].push_back(point);
  }
}

}  // namespace

const std::vector<DelayPoint>& DelayPlan::points_of(const std::pair<std::string, std::string>& code) const {
  static const std::vector<DelayPoint> none;
  const auto found = functions.find(code);
  return found != functions.end() ? found->second : none;
}

bool DelayPlan::read(const std::string& path) {
  std::ifstream file(path);
  if (!file) return false;
  std::string text, word;
  while (std::getline(file, text)) {
    std::istringstream line(text);
    if (line >> word) take(this, word, line);
  }
  return true;
}

}  // namespace warpsight
