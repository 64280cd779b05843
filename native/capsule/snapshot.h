// Copies of memory: what blocks hold, taken at once and written out while the program goes on.
#pragma once

#include <cuda.h>

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "capsule/output.h"

namespace warpsight {

// A stretch of memory and where its bytes go in the output.
struct Piece {
  uint64_t address = 0, size = 0;
  uint64_t offset = 0;
  bool host = false;  // it is the host's
  int module = -1;    // it is a variable of this one

  uint64_t end() const { return address + size; }
};

// The pieces by address; those of one module, of which there may be hundreds, together where all memory
// between them is mapped: no whole page of the smallest size is.
std::vector<std::vector<Piece>> runs_of(std::vector<Piece> pieces);

class Snapshots {
 public:
  Snapshots(Output* output, bool shadow) : output_(*output), shadow_allowed_(shadow) {}

  // Makes room for copies and pins memory for their transfers, so that this does not hold the program later.
  void prepare(CUcontext context);
  // Copies all pieces of a GPU that has no work left; on return the program may change them, with `before`
  // only by work of that stream. The copy stays on the GPU if there is room for it and is written out after
  // end(), otherwise it goes to the output at once. Returns "", or what failed.
  std::string take(CUcontext context, const std::vector<Piece>& pieces, const CUstream* before);
  // The same of memory that work under way uses: waits for nothing else on the GPU.
  std::string take_aside(CUcontext context, const std::vector<Piece>& pieces);
  // The same of rows of the host's memory, packed.
  std::string take_rows(uint64_t address, uint64_t bytes, uint64_t rows, uint64_t pitch, uint64_t offset);
  // Nothing more is taken: once all is written, the line "whole" is logged, and `before` it called. `hung`:
  // work under way never ends, so nothing may wait for it.
  void end(bool hung, std::function<void()> before);
  // Waits for that.
  void finish();
  // The context ends, and its memory with it.
  void forget(CUcontext context);

 private:
  struct Shadow {  // room on the GPU, and the copies in it
    CUcontext context;
    CUdeviceptr memory;
    uint64_t size, used;
    std::vector<Piece> pieces;
  };
  struct Staging {  // a way to the host that is ready
    CUcontext context;
    CUstream stream;
    void* buffer;
  };
  // `stream`: for amounts so small that this thread copies them.
  std::string copy(CUcontext context, const std::vector<Piece>& pieces, unsigned workers, CUstream stream);
  std::string copy_small(const std::vector<Piece>& parts, CUstream stream);
  bool shadow(CUcontext context, const std::vector<Piece>& pieces, const CUstream* before);
  CUresult copy_run(uint64_t to, const std::vector<Piece>& run, CUstream stream);
  Shadow* room(CUcontext context, uint64_t bytes);
  CUresult make_aside();
  void drain(const std::function<void()>& before);
  std::string write_out(const Shadow& shadow);
  std::string move_staged(const std::vector<Piece>& pieces);
  void log_whole(const std::function<void()>& before);

  Output& output_;
  const bool shadow_allowed_;
  CUstream aside_ = nullptr;  // for copies that wait for nothing else
  Staging staging_ = {};
  std::mutex mutex_;            // protects what follows
  uint64_t bytes_ = 0;          // copied
  std::deque<Shadow> shadows_;  // to be written out; with thread_, that one's alone
  bool ending_ = false, hung_ = false;
  std::string failed_;
  std::thread thread_;  // writes shadows out
};

}  // namespace warpsight
