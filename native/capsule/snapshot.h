// Copies of memory: what blocks hold, taken at once and written out while the program goes on.
#pragma once

#include <cuda.h>

#include <atomic>
#include <condition_variable>
#include <deque>
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
};

class Snapshots {
 public:
  Snapshots(Output* output, bool shadow) : output_(*output), shadow_allowed_(shadow) {}

  // Copies all pieces; on return the program may change them. Within the GPU when it has room for a second
  // copy, which is written out after end(), else to the output at once. "" or what failed.
  std::string take(CUcontext context, std::vector<Piece> pieces);
  // The same of memory that work under way uses: waits for nothing else on the GPU.
  std::string take_aside(CUcontext context, const std::vector<Piece>& pieces);
  // The same of rows of the host's memory, packed.
  std::string take_rows(uint64_t address, uint64_t bytes, uint64_t rows, uint64_t pitch, uint64_t offset);
  // Nothing more is taken: once all is written, the line "whole" is logged.
  void end();
  // Waits for that.
  void finish();

 private:
  struct Shadow {
    CUcontext context;
    CUdeviceptr memory;
    std::vector<Piece> pieces;  // within it
  };
  // `stream`: for what is so little that this thread moves it.
  std::string copy(CUcontext context, const std::vector<Piece>& pieces, unsigned workers, CUstream stream);
  std::string copy_small(const std::vector<Piece>& parts, CUstream stream);
  bool shadow(CUcontext context, const std::vector<Piece>& pieces, uint64_t total);
  void drain();
  std::string write_out(const Shadow& shadow);
  void log_whole();

  Output& output_;
  const bool shadow_allowed_;
  CUstream aside_ = nullptr;  // of take_aside
  std::mutex mutex_;          // protects what follows
  uint64_t bytes_ = 0;        // copied
  std::condition_variable changed_;
  std::deque<Shadow> shadows_;  // to be written out
  bool ending_ = false;
  std::string failed_;
  std::thread thread_;  // writes shadows out; begins with the first
};

}  // namespace warpsight
