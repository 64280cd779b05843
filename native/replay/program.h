// The recorded operations: modules loaded, parameters mended, and each operation issued on its stream.
#pragma once
#include <string>
#include <vector>

#include "replay/loaded_script.h"
#include "replay/report.h"

namespace warpsight::replay {

class Program {
 public:
  Program(const Driver& driver, const Script& script, Report* report)
      : driver_(driver), script_(script), report_(report) {}

  // Modules, functions, streams and events; the context is current and the memory mapped.
  bool load();
  // Contents of module variables, and the pointers to them wherever they are stored.
  bool restore_globals();
  // Compares the variables with their recorded contents after the last operation.
  bool compare_globals(int run, unsigned variant);
  bool issue(size_t operation, unsigned variant) { return issue_on(operation, variant, stream(operation)); }
  size_t operations() const { return script_.header->sequence; }
  CUstream stream(size_t operation) const { return streams_[operations_[operation].stream]; }
  // Restores the recorded values of pointers to globals that were relocated and are still there.
  void unmend(uint64_t address, uint64_t size, uint64_t before, unsigned char* contents) const;
  bool mends_memory() const { return mends_memory_; }
  // Every graph of a variant that the operations launch; created at most once, outside the timed part.
  bool make_graphs(unsigned variant);
  const std::vector<CUstream>& streams() const { return streams_; }

 private:
  bool load_functions();
  bool load_globals();
  bool is_pointed_to(size_t global) const;
  bool patch_parameters();
  bool patch_operations();
  bool issue_on(size_t index, unsigned variant, CUstream stream);
  bool launch(size_t index, unsigned variant, CUstream stream);
  CUresult copy(const Operation& operation, CUstream stream) const;
  CUresult copy_rows(const Operation& operation, CUstream stream) const;
  CUresult fill(const Operation& operation, CUstream stream) const;
  CUresult issue_other(const Operation& operation, unsigned variant, CUstream stream);
  bool capture_nodes(const Graph& graph, unsigned variant, CUstream stream);
  bool make_streams();
  bool pin_uploads();
  const unsigned char* upload(const Operation& operation) const {
    return (operation.element != 0 ? pinned_ : script_.data) + operation.from;
  }

  const Driver& driver_;
  const Script& script_;
  Report* const report_;
  std::vector<CUmodule> modules_;
  std::vector<CUfunction> functions_;
  std::vector<CUdeviceptr> globals_;
  std::vector<CUstream> streams_;
  std::vector<CUevent> events_;
  std::vector<CUgraphExec> graphs_[2];     // of each variant
  std::vector<Operation> operations_;      // the script's, with patches
  std::vector<unsigned char> parameters_;  // the script's bytes, with patches
  unsigned char* aligned_ = nullptr;       // into parameters_, on a multiple of 64
  std::vector<CUlaunchAttribute> attributes_;
  bool mends_memory_ = false;
  void* scratch_ = nullptr;          // where downloads of the program go
  unsigned char* pinned_ = nullptr;  // uploads from pinned memory
};

}  // namespace warpsight::replay
