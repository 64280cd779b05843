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

#include "capsule/host_room.h"
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
  // `later`: what is taken is wanted in any case, so it may be written out later. `shadow`: copies within the
  // GPU are allowed for that.
  Snapshots(Output* output, bool later, bool shadow)
      : output_(*output), later_(later), shadow_allowed_(later && shadow) {}

  // Makes room for copies and pins memory for their transfers, so that this does not hold the program later.
  void prepare(CUcontext context);
  // The program now has so many bytes of the GPU's memory: makes room on the host if the GPU has none for a
  // copy.
  void expect(uint64_t bytes);
  // Copies all pieces of a GPU that has no work left; on return the program may change them, with `before`
  // only by work of that stream. The copy stays on the GPU if there is room for it, else in the host's
  // memory, and is written out after end(); without room there either it goes to the output at once. Returns
  // "", or what failed.
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
  struct Parked {  // memory of the host, and the copies in it
    char* memory;
    std::vector<Piece> pieces;
  };
  struct Staging {  // streams and pinned buffers that are ready, one for each worker
    CUcontext context;
    std::vector<CUstream> streams;
    char* buffer;
  };
  // Moves the pieces' bytes to their offsets in `to`, or in the output where that is null. `stream`: for
  // amounts so small that this thread copies them.
  std::string copy(CUcontext context, const std::vector<Piece>& pieces, unsigned workers, CUstream stream,
                   char* to = nullptr);
  bool park(CUcontext context, const std::vector<Piece>& pieces, std::string* problem);
  std::string fill(CUcontext context, const std::vector<Piece>& pieces, char* to);
  std::string copy_small(const std::vector<Piece>& parts, CUstream stream);
  bool shadow(CUcontext context, const std::vector<Piece>& pieces, const CUstream* before);
  CUresult copy_run(uint64_t to, const std::vector<Piece>& run, CUstream stream);
  Shadow* room(CUcontext context, uint64_t bytes);
  CUresult make_aside();
  void drain(const std::function<void()>& before);
  std::string write_out(const Shadow& shadow);
  std::string write_out(const Parked& parked);
  std::string move_staged(const std::vector<Piece>& pieces);
  void log_whole(const std::function<void()>& before);

  Output& output_;
  const bool later_, shadow_allowed_;
  CUstream aside_ = nullptr;  // for copies that wait for nothing else
  Staging staging_ = {};
  HostRoom host_room_;
  std::atomic<CUcontext> expecting_{nullptr};  // staging_'s, once that is ready and until all is taken
  std::atomic<uint64_t> looked_at_{0};         // bytes of the program when the GPU's room was looked at last
  std::mutex mutex_;                           // protects what follows
  uint64_t bytes_ = 0;                         // copied
  std::deque<Shadow> shadows_;                 // to be written out; with thread_, that one's alone
  std::deque<Parked> parked_;                  // likewise
  bool ending_ = false, hung_ = false;
  std::string failed_;
  std::thread thread_;  // writes both out
};

}  // namespace warpsight
