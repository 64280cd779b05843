// OpenMP and OpenACC as ranges in table `marker`, from what both runtimes report about themselves.
#pragma once

#include <cstdint>
#include <string>

namespace warpsight {

enum class Directives : uint16_t { openacc = 6, openmp = 7 };  // Marker.source

// Whether settings().trace names it.
bool directives_wanted(Directives which);

// The runtime of the program called us: it will report its constructs.
void directives_heard(Directives which);

// At the end of a recording: a loss row for each kind that was requested and never reported.
void report_unheard_directives();

// A range of the calling thread, nested in those already open. `name` and `attributes` (a JSON object) are
// string ids, 0: none. Both are always counted: a recording may begin or end inside a range.
void begin_directive(Directives which, uint32_t name, uint32_t attributes);
void end_directive(Directives which);

// A range that another thread may end; `id` is unique among them.
void begin_directive(Directives which, uint64_t id, uint32_t name, uint32_t attributes);
void end_directive(Directives which, uint64_t id);

// One moment; `payload` is a number of bytes.
void directive_moment(Directives which, uint32_t name, uint32_t attributes, uint64_t payload);

// `"key":"value"` for a JSON object, with a comma before it unless it is the first; nothing for an empty
// value.
void add_text(std::string* json, const char* key, const char* value);
void add_number(std::string* json, const char* key, uint64_t value);

}  // namespace warpsight
