// Reading WARPSIGHT_*: a bad value costs one line on stderr, is replaced by the default and noted in table
// `loss`.
#include "runtime/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utility>

namespace warpsight {

namespace {

std::vector<std::string>* const g_complaints = new std::vector<std::string>;  // never destroyed

void complain(const char* name, const char* value, const char* expected) {
  std::string text = std::string(name) + "=" + value + " is not " + expected + "; using the default";
  fprintf(stderr, "warpsight: %s\n", text.c_str());
  g_complaints->push_back(std::move(text));
}

const char* value_of(const char* name) {
  const char* value = getenv(name);
  return value && *value ? value : nullptr;
}

template <class T, size_t N>
void read_choice(const char* name, const std::pair<const char*, T> (&choices)[N], T* target) {
  const char* value = value_of(name);
  if (!value) return;
  std::string expected = "one of";
  for (const auto& choice : choices) {
    if (strcmp(value, choice.first) == 0) {
      *target = choice.second;
      return;
    }
    expected += std::string(" ") + choice.first;
  }
  complain(name, value, expected.c_str());
}

template <class T>
void read_number(const char* name, unsigned long long least, unsigned long long most, T* target) {
  const char* value = value_of(name);
  if (!value) return;
  char* end = nullptr;
  errno = 0;
  const unsigned long long number = strtoull(value, &end, 10);
  if (errno || end == value || *end || *value == '-' || number < least || number > most) {
    const std::string expected = "a number from " + std::to_string(least) + " to " + std::to_string(most);
    complain(name, value, expected.c_str());
    return;
  }
  *target = static_cast<T>(number);
}

std::vector<std::string> split(const char* text, const char* separators) {
  std::vector<std::string> parts;
  while (*text) {
    const size_t length = strcspn(text, separators);
    if (length) parts.emplace_back(text, length);
    text += length;
    if (*text) ++text;
  }
  return parts;
}

Settings read_settings() {
  Settings s;
  constexpr std::pair<const char*, StackMode> kStacks[] = {{"off", StackMode::off},
                                                           {"python", StackMode::python},
                                                           {"native", StackMode::native},
                                                           {"both", StackMode::both}};
  constexpr std::pair<const char*, GraphMode> kGraph[] = {
      {"auto", GraphMode::automatic}, {"node", GraphMode::node}, {"graph", GraphMode::graph}};
  constexpr std::pair<const char*, FullPolicy> kFull[] = {{"drop-newest", FullPolicy::drop_newest},
                                                          {"drop-oldest", FullPolicy::drop_oldest},
                                                          {"wait", FullPolicy::wait}};
  constexpr std::pair<const char*, bool> kSwitch[] = {{"1", true},  {"on", true},   {"true", true},
                                                      {"0", false}, {"off", false}, {"false", false}};
  constexpr std::pair<const char*, bool> kRange[] = {{"profiler-api", true}, {"off", false}};
  constexpr std::pair<const char*, bool> kState[] = {{"dormant", true}, {"on", false}};
  if (const char* path = value_of("WARPSIGHT_SOCKET")) s.socket = path;
  read_choice("WARPSIGHT", kState, &s.dormant);
  read_choice("WARPSIGHT_STACKS", kStacks, &s.stacks);
  read_number("WARPSIGHT_STACK_DEPTH", 1, 4096, &s.stack_depth);
  read_choice("WARPSIGHT_GRAPH", kGraph, &s.graph);
  if (const char* api = value_of("WARPSIGHT_API")) s.api = api;
  if (const char* kinds = value_of("WARPSIGHT_TRACE")) s.trace = split(kinds, ", ");
  if (const char* kernels = value_of("WARPSIGHT_KERNELS")) s.kernels = split(kernels, "\n");
  read_number("WARPSIGHT_BUFFER_SIZE", 4096, 64u << 20, &s.buffer_bytes);
  read_number("WARPSIGHT_DEVICE_BUFFERS", 0, 1u << 30, &s.device_buffer_bytes);
  read_number("WARPSIGHT_FLUSH_MS", 10, 60000, &s.flush_ms);
  read_choice("WARPSIGHT_ON_FULL", kFull, &s.on_full);
  read_choice("WARPSIGHT_YIELD", kSwitch, &s.yield);
  read_choice("WARPSIGHT_OPENCL_PROFILING", kSwitch, &s.opencl_profiling);
  read_choice("WARPSIGHT_CUBINS", kSwitch, &s.cubins);
  read_choice("WARPSIGHT_CAPTURE_RANGE", kRange, &s.capture_range);
  read_choice("WARPSIGHT_RING", kSwitch, &s.ring);
  read_choice("WARPSIGHT_VERBOSE", kSwitch, &s.verbose);
  return s;
}

template <class T, size_t N>
const char* choice_name(const std::pair<T, const char*> (&names)[N], T value) {
  for (const auto& name : names) {
    if (name.first == value) return name.second;
  }
  return "";
}

std::string json_string(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += std::string("\\") + c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      snprintf(code, sizeof(code), "\\u%04x", c);
      out += code;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string json_list(const std::vector<std::string>& values) {
  std::string out = "[";
  for (const std::string& value : values) out += (out.size() > 1 ? "," : "") + json_string(value);
  return out + "]";
}

}  // namespace

const Settings& settings() {
  static const Settings* const value =
      new Settings(read_settings());  // never destroyed: used until the very exit
  return *value;
}

const std::vector<std::string>& settings_complaints() {
  settings();
  return *g_complaints;
}

std::string settings_json() {
  constexpr std::pair<StackMode, const char*> kStacks[] = {{StackMode::off, "off"},
                                                           {StackMode::python, "python"},
                                                           {StackMode::native, "native"},
                                                           {StackMode::both, "both"}};
  constexpr std::pair<GraphMode, const char*> kGraph[] = {
      {GraphMode::automatic, "auto"}, {GraphMode::node, "node"}, {GraphMode::graph, "graph"}};
  constexpr std::pair<FullPolicy, const char*> kFull[] = {{FullPolicy::drop_newest, "drop-newest"},
                                                          {FullPolicy::drop_oldest, "drop-oldest"},
                                                          {FullPolicy::wait, "wait"}};
  const Settings& s = settings();
  std::string out = "{\"stacks\":" + json_string(choice_name(kStacks, s.stacks));
  out += ",\"stack_depth\":" + std::to_string(s.stack_depth);
  out += ",\"graph\":" + json_string(choice_name(kGraph, s.graph));
  out += ",\"api\":" + json_string(s.api);
  out += ",\"trace\":" + json_list(s.trace);
  out += ",\"kernels\":" + json_list(s.kernels);
  out += ",\"buffer_size\":" + std::to_string(s.buffer_bytes);
  out += ",\"device_buffers\":" + std::to_string(s.device_buffer_bytes);
  out += ",\"flush_ms\":" + std::to_string(s.flush_ms);
  out += ",\"on_full\":" + json_string(choice_name(kFull, s.on_full));
  out += std::string(",\"yield\":") + (s.yield ? "true" : "false");
  out += std::string(",\"capture_range\":") + (s.capture_range ? "\"profiler-api\"" : "\"off\"");
  out += std::string(",\"cubins\":") + (s.cubins ? "true" : "false");
  out += std::string(",\"opencl_profiling\":") + (s.opencl_profiling ? "true" : "false");
  return out + "}";
}

}  // namespace warpsight
