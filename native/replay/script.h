// The actions of a replay, written by the Python side (src/warpsight/replay/script.py) after checking the
// capsule. One file: a Header, then the sections it names, arrays of the structs below. Numbers are
// little-endian. Contents are in a second file, the data, at the given offsets; `kNone` means "no contents".
#pragma once
#include <cstdint>

namespace warpsight::replay {

constexpr char kMagic[8] = {'W', 'S', 'R', 'E', 'P', 'L', 'A', 'Y'};
constexpr uint32_t kVersion = 1;
constexpr uint64_t kNone = ~0ull;

enum Flag : uint32_t {
  kTimeOperations = 1,  // events around each operation, in runs of their own
  kStepwise = 2,        // after each operation: wait, and report which pieces changed
  kOriginalTiming = 4,  // each operation is issued no sooner than it was
  kGraph = 8,           // the operations become one CUDA graph
  kGate = 16,           // the device begins when all operations are issued
  kServe = 32,          // a debugger steps through the operations (serve.cpp)
  kCheckGaps = 64,      // memory not covered by any piece must keep its poison
  kTellIssued = 128,    // when the host issued each operation of the last whole run
};

struct Section {
  uint64_t offset;
  uint64_t count;
};

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t flags;
  uint32_t device;
  uint32_t runs;        // of each variant, compared and timed as one
  uint32_t timed_runs;  // of each variant, with events around each operation
  uint32_t variants;    // 1, or 2 when functions are swapped
  uint32_t first;       // operations before it only prepare the memory and are not timed
  uint32_t poison;      // byte that fills memory not covered by any piece
  Section mappings, pieces, modules, functions, globals, patches, streams, operations, graphs, edges,
      attributes, bytes;
  uint64_t sequence;     // operations that are issued in turn; those behind them are nodes of graphs
  uint64_t events;       // numbers that event operations use are below
  uint64_t stack_bytes;  // of a thread, 0: as the driver has it
  uint64_t heap_bytes;   // of malloc() in kernels
};

enum MappingKind : uint32_t { kDevice = 0, kPinned = 1 };

// A range of addresses that is reserved where it was. Device memory comes in multiples of the driver's
// granularity.
struct Mapping {
  uint64_t address;
  uint64_t size;
  uint32_t kind;
  uint32_t unused;
};

// A stretch of memory with its contents before the first operation and after the last.
struct Piece {
  uint64_t address;
  uint64_t size;
  uint64_t before;  // offset in the data, kNone: zeros
  uint64_t after;   // kNone: outputs are compared between runs alone
};

struct Module {
  uint64_t offset;
  uint64_t size;
};

struct FunctionAttribute {
  int32_t attribute;
  int32_t value;
};

constexpr uint32_t kMostAttributes = 7;

struct Function {
  uint32_t module;
  uint32_t name;         // offset in `bytes`, ends with 0
  uint32_t replacement;  // function of the second variant; itself when it is not swapped
  uint32_t attributes;
  FunctionAttribute attribute[kMostAttributes];
};

// A variable of a module. Where it is the driver decides; patches mend the pointers to it.
struct Global {
  uint32_t module;
  uint32_t name;
  uint64_t size;
  uint64_t before;
  uint64_t after;
};

enum PatchPlace : uint32_t { kInMemory = 0, kInParameters = 1, kInGlobal = 2, kTo = 3, kFrom = 4 };

// A pointer to a global, stored (8 bytes) or an address of an operation: it becomes the global's address here
// plus `addend`.
struct Patch {
  uint32_t place;
  uint32_t index;   // operation or global that `offset` counts from
  uint64_t offset;  // in memory: the address
  uint32_t global;
  uint32_t unused;
  uint64_t addend;
};

struct Stream {
  uint32_t flags;  // CU_STREAM_*
  int32_t priority;
};

enum OperationKind : uint32_t {
  kLaunch = 0,
  kCopy = 1,    // between device addresses
  kUpload = 2,  // from the data
  kFill = 3,
  kRecord = 4,  // an event
  kWait = 5,
  kDownload = 6,  // to scratch memory of the host
  kGraphLaunch = 7,
  kEmpty = 8,  // a node of a graph without work
};

// Operations `first` and so many more are the nodes of a graph, in topological order.
struct Graph {
  uint64_t first;
  uint64_t count;
};

struct Operation {
  uint32_t kind;
  uint32_t stream;
  uint32_t function;  // launch; record, wait: the event; launch of a graph: the graph
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t shared;
  uint64_t parameters;  // offset in `bytes`
  uint32_t parameter_bytes;
  uint32_t attributes;  // how many
  uint64_t attribute;   // index of the first
  uint64_t to;
  uint64_t from;    // address, offset in the data, or the value of a fill
  uint64_t width;   // bytes of a row; fill: elements
  uint64_t height;  // rows
  uint64_t to_pitch;
  uint64_t from_pitch;
  uint32_t element;  // of a fill, in bytes; upload: 1 from pinned memory
  uint32_t after_count;
  uint64_t after;      // of a node: index in `edges` of the nodes it waits for, as positions in its graph
  uint64_t issued_ns;  // after the first operation
};

// As CUlaunchAttribute.
struct Attribute {
  uint32_t id;
  uint32_t unused;
  unsigned char value[64];
};

static_assert(sizeof(Header) == 8 + 32 + 192 + 32);
static_assert(sizeof(Mapping) == 24 && sizeof(Piece) == 32 && sizeof(Module) == 16 && sizeof(Function) == 72);
static_assert(sizeof(Global) == 32 && sizeof(Patch) == 32 && sizeof(Operation) == 136 &&
              sizeof(Attribute) == 72);

}  // namespace warpsight::replay
