#include "cuda/metric_passes.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runtime/runtime.h"

namespace warpsight {
namespace {

// Before the image.
struct Header {
  char magic[8];
  uint64_t bytes;
  PassState state;
};
constexpr char kMagic[sizeof(Header::magic) + 1] = "WSPASS01";

// Ranks measure the same contexts and sessions, each on its own.
std::string path_of(uint32_t context, uint64_t session) {
  const char* rank = getenv("RANK");
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (rank == nullptr) rank = getenv(name);
  return settings().metrics_passes + "/" + (rank != nullptr ? std::to_string(atol(rank)) : "-") + "." +
         std::to_string(context) + "." + std::to_string(session);
}

std::string why() { return strerror(errno); }

}  // namespace

bool load_passes(uint32_t context, uint64_t session, PassState* state, std::vector<uint8_t>* data) {
  FILE* file = fopen(path_of(context, session).c_str(), "rbe");
  if (file == nullptr) return false;
  Header header;
  const bool whole = fread(&header, sizeof header, 1, file) == 1 &&
                     memcmp(header.magic, kMagic, sizeof header.magic) == 0 && header.bytes == data->size() &&
                     fread(data->data(), 1, data->size(), file) == data->size();
  fclose(file);
  if (whole) *state = header.state;
  return whole;
}

std::string save_passes(uint32_t context, uint64_t session, const PassState& state,
                        const std::vector<uint8_t>& data) {
  const std::string path = path_of(context, session), temporary = path + ".new";
  FILE* file = fopen(temporary.c_str(), "wbe");
  if (file == nullptr) return temporary + ": " + why();
  Header header = {};
  memcpy(header.magic, kMagic, sizeof header.magic);
  header.bytes = data.size();
  header.state = state;
  const bool written = fwrite(&header, sizeof header, 1, file) == 1 &&
                       fwrite(data.data(), 1, data.size(), file) == data.size();
  const std::string problem = written ? "" : path + ": " + why();
  if (fclose(file) != 0 && problem.empty()) return path + ": " + why();
  if (problem.empty() && rename(temporary.c_str(), path.c_str()) != 0) return path + ": " + why();
  return problem;
}

void forget_passes(uint32_t context, uint64_t session) { unlink(path_of(context, session).c_str()); }

}  // namespace warpsight
