// The memory's contents after a run, compared with the recording and with other runs.
#pragma once
#include <string>
#include <vector>

#include "replay/memory.h"
#include "replay/program.h"

namespace warpsight::replay {

// Pieces that differ are also written, each at the sum of the sizes of the pieces before it, to sparse files
// of the output folder: `first.V` (the first run of variant V) and `other.V` (its first run that differs from
// that one).
class Outputs {
 public:
  Outputs(const Script& script, Memory* memory, const Program* program, Report* report, const char* folder)
      : script_(script), memory_(*memory), program_(*program), report_(report), folder_(folder) {}

  bool open();
  // After a run of a variant.
  bool compare(int run, unsigned variant);
  // After an operation of a run in single steps: the pieces it changed. `operation` -1: none yet.
  bool compare_step(int run, long long operation);

 private:
  void compare_recorded(int run, unsigned variant, const unsigned char* found);
  bool download(unsigned char* contents);
  void compare_runs(int run, unsigned variant, const unsigned char* before, const unsigned char* found);
  void differs(const char* what, int run, unsigned variant, size_t piece, const unsigned char* a,
               const unsigned char* b);
  bool write(const char* name, unsigned variant, size_t piece, const unsigned char* contents);

  const Script& script_;
  Memory& memory_;
  const Program& program_;
  Report* const report_;
  const std::string folder_;
  unsigned char* current_ = nullptr;
  unsigned char* first_[2] = {nullptr, nullptr};  // contents after the first run of each variant
  int other_run_[2] = {-1, -1};                   // the run that `other.V` holds
  int files_[2][2] = {{-1, -1}, {-1, -1}};        // first and other, of each variant
  std::vector<uint64_t> places_;                  // of each piece in the files
};

}  // namespace warpsight::replay
