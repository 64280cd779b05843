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

void read_text(const char* name, std::string* target) {
  if (const char* value = value_of(name)) *target = value;
}

void read_texts(const char* name, const char* separators, std::vector<std::string>* target) {
  if (const char* value = value_of(name)) *target = split(value, separators);
}

constexpr std::pair<const char*, bool> kSwitch[] = {{"1", true},  {"on", true},   {"true", true},
                                                    {"0", false}, {"off", false}, {"false", false}};

template <class T, size_t N>
const char* choice_name(const std::pair<const char*, T> (&choices)[N], T value) {
  for (const auto& choice : choices) {
    if (choice.second == value) return choice.first;
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

void add(std::string* object, const char* key, const std::string& value) {
  *object += (object->empty() ? "\"" : ",\"") + std::string(key) + "\":" + value;
}

#include "settings_table.h"  // read_members and members_json, from warpsight/recorder/options/table.py

Settings read_settings() {
  Settings s;
  read_members(&s);
  return s;
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

std::string settings_json() { return members_json(settings()); }

}  // namespace warpsight
