"""The programs of reproducers, in Python and CUDA C++; `@CAPSULE@` is where a capsule's own lines go."""

from __future__ import annotations

PYTHON = '''#!/usr/bin/env python3
"""Runs recorded GPU work again, at the addresses it had, and compares what it leaves with the recording.

Made by `warpsight capsule export`. Needs an NVIDIA driver and nothing else. Exits with 0 when every byte is the recorded one,
4 when not.
"""
import ctypes as c
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TRIES = 8
driver = c.CDLL("libcuda.so.1")

@CAPSULE@


def read(name):
    with open(os.path.join(HERE, name), "rb") as file:
        return file.read()


def call(name, *arguments):
    code = getattr(driver, name)(*arguments)
    if code:
        text = c.c_char_p()
        driver.cuGetErrorName(code, c.byref(text))
        sys.exit(f"{name}: {(text.value or b'error').decode()}")


def again():
    """Start anew, at other addresses: one that the recording needs is taken in this process."""
    tries = int(os.environ.get("REPLAY_TRIES", "0")) + 1
    if tries == TRIES:
        sys.exit("an address of the recording is taken in each process")
    os.environ["REPLAY_TRIES"] = str(tries)
    os.execv(sys.executable, [sys.executable, *sys.argv])


class Attribute(c.Structure):
    _fields_ = [("id", c.c_uint), ("unused", c.c_uint), ("value", c.c_ubyte * 64)]


class Config(c.Structure):
    _fields_ = [("grid", c.c_uint * 3), ("block", c.c_uint * 3), ("shared", c.c_uint), ("stream", c.c_void_p),
                ("attributes", c.POINTER(Attribute)), ("count", c.c_uint)]


class Location(c.Structure):
    _fields_ = [("type", c.c_int), ("id", c.c_int)]


class Properties(c.Structure):
    _fields_ = [("type", c.c_int), ("handles", c.c_int), ("location", Location), ("win32", c.c_void_p), ("flags", c.c_ubyte * 8)]


class Access(c.Structure):
    _fields_ = [("location", Location), ("flags", c.c_int)]


class Gpu:
    def __init__(self):
        call("cuInit", 0)
        for address, size in RESERVATIONS:  # before there is a context, which takes addresses for itself
            found = c.c_uint64()
            call("cuMemAddressReserve", c.byref(found), c.c_size_t(size), c.c_size_t(0), c.c_uint64(address), c.c_uint64(0))
            if found.value != address:
                again()
        context = c.c_void_p()
        call("cuDevicePrimaryCtxRetain", c.byref(context), 0)
        call("cuCtxSetCurrent", context)
        for limit, value in LIMITS.items():
            call("cuCtxSetLimit", limit, c.c_size_t(value))
        for address, size, pinned in MAPPINGS:
            self.map_pinned(address, size) if pinned else self.map(address, size)
        self.load()
        self.restore()

    def map(self, address, size):
        properties, access, handle = Properties(), Access(), c.c_uint64()
        properties.type = properties.location.type = access.location.type = 1  # pinned, on the device
        access.flags = 3  # read and write
        call("cuMemCreate", c.byref(handle), c.c_size_t(size), c.byref(properties), c.c_uint64(0))
        call("cuMemMap", c.c_uint64(address), c.c_size_t(size), c.c_size_t(0), handle, c.c_uint64(0))
        call("cuMemSetAccess", c.c_uint64(address), c.c_size_t(size), c.byref(access), c.c_size_t(1))

    def map_pinned(self, address, size):
        libc = c.CDLL(None)
        libc.mmap.restype = c.c_void_p
        found = libc.mmap(c.c_void_p(address), c.c_size_t(size), 3, 0x100022, -1, c.c_long(0))
        if found != address:
            again()
        call("cuMemHostRegister_v2", c.c_void_p(address), c.c_size_t(size), 2)

    def load(self):
        modules, self.functions, self.variables = [], [], []
        for number in range(MODULES):
            module = c.c_void_p()
            call("cuModuleLoadData", c.byref(module), read(f"module_{number}.cubin"))
            modules.append(module)
        for module, name, attributes in FUNCTIONS:
            function = c.c_void_p()
            call("cuModuleGetFunction", c.byref(function), modules[module], name.encode())
            for attribute, value in attributes.items():
                driver.cuFuncSetAttribute(function, attribute, value)  # refuses some values that are in force already
            self.functions.append(function)
        for module, name, _ in VARIABLES:
            address, size = c.c_uint64(), c.c_size_t()
            call("cuModuleGetGlobal_v2", c.byref(address), c.byref(size), modules[module], name.encode())
            self.variables.append(address.value)

    def restore(self):
        for address, size, _ in MAPPINGS:
            call("cuMemsetD8_v2", c.c_uint64(address), c.c_ubyte(0), c.c_size_t(size))
        memory = [address for address, _ in MEMORY]
        for kind, places in (("memory", memory), ("variable", self.variables)):
            for number, address in enumerate(places):
                if os.path.exists(os.path.join(HERE, f"{kind}_{number}.before")):
                    self.write(address, read(f"{kind}_{number}.before"))
        for places, pointers in ((memory, POINTERS), (self.variables, VARIABLE_POINTERS)):
            for holder, offset, variable, addend in pointers:
                self.write(places[holder] + offset, (self.variables[variable] + addend).to_bytes(8, "little"))

    def write(self, address, data):
        call("cuMemcpyHtoD_v2", c.c_uint64(address), data, c.c_size_t(len(data)))

    def launch(self, function, grid, block, shared, parameters, attributes, pointers):
        data = bytearray.fromhex(parameters)
        for offset, variable, addend in pointers:
            data[offset : offset + 8] = (self.variables[variable] + addend).to_bytes(8, "little")
        listed = (Attribute * max(len(attributes), 1))()
        for slot, (number, value) in zip(listed, attributes):
            slot.id, slot.value[:] = number, bytes.fromhex(value).ljust(64, b"\\0")
        config = Config(grid, block, shared, None, listed, len(attributes))
        buffer, size = (c.c_ubyte * max(len(data), 1)).from_buffer_copy(data or b"\\0"), c.c_size_t(len(data))
        extra = (c.c_void_p * 5)(1, c.addressof(buffer), 2, c.addressof(size), None)
        call("cuLaunchKernelEx", c.byref(config), self.functions[function], None, extra)

    def fill(self, address, value, element, count, rows, pitch):
        name = {1: "cuMemsetD8_v2", 2: "cuMemsetD16_v2", 4: "cuMemsetD32_v2"}[element]
        kind = {1: c.c_ubyte, 2: c.c_ushort, 4: c.c_uint}[element]
        for row in range(rows):
            call(name, c.c_uint64(address + row * pitch), kind(value), c.c_size_t(count))

    def copy(self, to, size, rows, pitch, source, source_pitch):
        for row in range(rows):
            places = c.c_uint64(to + row * pitch), c.c_uint64(source + row * source_pitch)
            call("cuMemcpyDtoD_v2", *places, c.c_size_t(size))

    def upload(self, to, size, rows, pitch, name):
        data = read(name)
        for row in range(rows):
            self.write(to + row * pitch, data[row * size : (row + 1) * size])

    def contents(self, address, size):
        data = c.create_string_buffer(size)
        call("cuMemcpyDtoH_v2", data, c.c_uint64(address), c.c_size_t(size))
        return data.raw


def compare(gpu):
    """How many allocations differ; of each, the first byte."""
    wrong = compared = 0
    for number, (address, size) in enumerate(MEMORY):
        if not os.path.exists(os.path.join(HERE, f"memory_{number}.after")):
            continue
        compared += 1
        wanted, found = read(f"memory_{number}.after"), bytearray(gpu.contents(address, size))
        for holder, offset, variable, addend in POINTERS:  # pointers to variables, which are elsewhere now
            if holder == number and found[offset : offset + 8] == (gpu.variables[variable] + addend).to_bytes(8, "little"):
                found[offset : offset + 8] = read(f"memory_{number}.before")[offset : offset + 8]
        if found != wanted:
            first = next(i for i in range(size) if found[i] != wanted[i])
            print(f"memory {number} at {address:#x}: differs from byte {first} on")
            wrong += 1
    print(f"{compared - wrong} of {compared} allocations hold the recorded bytes")
    return wrong


if __name__ == "__main__":
    gpu = Gpu()
    operations(gpu)
    call("cuCtxSynchronize")
    sys.exit(4 if compare(gpu) else 0)
'''

CUDA = """// Runs recorded GPU work again, at the addresses it had, and compares what it leaves with the recording.
// Made by `warpsight capsule export`. Run it in its folder; it exits with 0 when every byte is the recorded one, 4 when not.
#include <cuda.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

struct Range {
  uint64_t address, size;
  int pinned;
};
struct Function {
  int module;
  const char* name;
  std::vector<std::pair<int, int>> attributes;
};
struct Variable {
  int module;
  const char* name;
  uint64_t size;
};
struct Pointer {  // a stored address of a variable
  int holder;
  uint64_t offset;
  int variable;
  uint64_t addend;
};
struct Attribute {
  int id;
  std::vector<unsigned char> value;
};
struct Dim {
  unsigned x, y, z;
};
using Bytes = std::vector<char>;

#define CALL(...) check(__VA_ARGS__, #__VA_ARGS__)

static void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* name = "error";
  cuGetErrorName(result, &name);
  fprintf(stderr, "%s: %s\\n", what, name);
  exit(1);
}

static bool read(const std::string& name, Bytes* bytes) {
  std::ifstream file(name, std::ios::binary);
  if (!file) return false;
  bytes->assign(std::istreambuf_iterator<char>(file), {});
  return true;
}

static Bytes must_read(const std::string& name) {
  Bytes bytes;
  if (read(name, &bytes)) return bytes;
  fprintf(stderr, "%s is missing: run this in its folder\\n", name.c_str());
  exit(1);
}

// Starts anew, at other addresses: one that the recording needs is taken in this process.
static void again() {
  const char* before = getenv("REPLAY_TRIES");
  const int tries = (before == nullptr ? 0 : atoi(before)) + 1;
  if (tries < 8) {
    setenv("REPLAY_TRIES", std::to_string(tries).c_str(), 1);
    execl("/proc/self/exe", "replay", nullptr);
  }
  fprintf(stderr, "an address of the recording is taken in each process\\n");
  exit(1);
}

struct Gpu {
  std::vector<CUfunction> functions;
  std::vector<CUdeviceptr> variables;

  void launch(int function, Dim grid, Dim block, unsigned shared, size_t size, std::vector<uint64_t> words,
              std::vector<Attribute> attributes, std::vector<Pointer> pointers) {
    for (const Pointer& one : pointers) {
      const uint64_t value = variables[one.variable] + one.addend;
      memcpy(reinterpret_cast<char*>(words.data()) + one.offset, &value, sizeof value);
    }
    std::vector<CUlaunchAttribute> listed(attributes.size());
    for (size_t i = 0; i < listed.size(); ++i) {
      listed[i].id = static_cast<CUlaunchAttributeID>(attributes[i].id);
      memcpy(&listed[i].value, attributes[i].value.data(), attributes[i].value.size());
    }
    CUlaunchConfig config = {};
    config.gridDimX = grid.x, config.gridDimY = grid.y, config.gridDimZ = grid.z;
    config.blockDimX = block.x, config.blockDimY = block.y, config.blockDimZ = block.z;
    config.sharedMemBytes = shared, config.attrs = listed.data(), config.numAttrs = listed.size();
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, words.data(), CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    CALL(cuLaunchKernelEx(&config, functions[function], nullptr, extra));
  }
  void fill(CUdeviceptr to, unsigned value, int element, size_t count, size_t rows, size_t pitch) {
    for (size_t row = 0; row < rows; ++row, to += pitch) {
      if (element == 1) CALL(cuMemsetD8(to, value, count));
      if (element == 2) CALL(cuMemsetD16(to, value, count));
      if (element == 4) CALL(cuMemsetD32(to, value, count));
    }
  }
  void copy(CUdeviceptr to, size_t size, size_t rows, size_t pitch, CUdeviceptr from, size_t from_pitch) {
    for (size_t row = 0; row < rows; ++row) CALL(cuMemcpyDtoD(to + row * pitch, from + row * from_pitch, size));
  }
  void upload(CUdeviceptr to, size_t size, size_t rows, size_t pitch, const char* name) {
    const Bytes data = must_read(name);
    for (size_t row = 0; row < rows; ++row) CALL(cuMemcpyHtoD(to + row * pitch, data.data() + row * size, size));
  }
};

@CAPSULE@

static void map(const Range& one) {
  if (one.pinned) {
    void* wanted = reinterpret_cast<void*>(one.address);
    void* found = mmap(wanted, one.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | 0x100000, -1, 0);
    if (found != wanted) again();
    CALL(cuMemHostRegister(wanted, one.size, CU_MEMHOSTREGISTER_DEVICEMAP));
    return;
  }
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUmemGenericAllocationHandle handle;
  CALL(cuMemCreate(&handle, one.size, &properties, 0));
  CALL(cuMemMap(one.address, one.size, 0, handle, 0));
  CALL(cuMemSetAccess(one.address, one.size, &access, 1));
}

static void load(Gpu& gpu) {
  std::vector<CUmodule> modules(module_count);
  for (int i = 0; i < module_count; ++i)
    CALL(cuModuleLoadData(&modules[i], must_read("module_" + std::to_string(i) + ".cubin").data()));
  for (const Function& one : functions) {
    CUfunction function;
    CALL(cuModuleGetFunction(&function, modules[one.module], one.name));
    for (const auto& [attribute, value] : one.attributes)
      cuFuncSetAttribute(function, static_cast<CUfunction_attribute>(attribute), value);  // may be in force already
    gpu.functions.push_back(function);
  }
  for (const Variable& one : variables) {
    CUdeviceptr address;
    size_t size;
    CALL(cuModuleGetGlobal(&address, &size, modules[one.module], one.name));
    gpu.variables.push_back(address);
  }
}

static void restore(const Gpu& gpu) {
  for (const Range& one : mappings) CALL(cuMemsetD8(one.address, 0, one.size));
  Bytes bytes;
  for (size_t i = 0; i < memory.size(); ++i)
    if (read("memory_" + std::to_string(i) + ".before", &bytes))
      CALL(cuMemcpyHtoD(memory[i].address, bytes.data(), bytes.size()));
  for (size_t i = 0; i < variables.size(); ++i)
    if (read("variable_" + std::to_string(i) + ".before", &bytes))
      CALL(cuMemcpyHtoD(gpu.variables[i], bytes.data(), bytes.size()));
  for (const Pointer& one : pointers) {
    const uint64_t value = gpu.variables[one.variable] + one.addend;
    CALL(cuMemcpyHtoD(memory[one.holder].address + one.offset, &value, sizeof value));
  }
  for (const Pointer& one : variable_pointers) {
    const uint64_t value = gpu.variables[one.variable] + one.addend;
    CALL(cuMemcpyHtoD(gpu.variables[one.holder] + one.offset, &value, sizeof value));
  }
}

// Pointers to variables, which are elsewhere now, are as recorded where they are those that were stored.
static void unmend(const Gpu& gpu, int number, Bytes* found) {
  for (const Pointer& one : pointers) {
    const uint64_t value = gpu.variables[one.variable] + one.addend;
    if (one.holder != number || memcmp(found->data() + one.offset, &value, 8) != 0) continue;
    const Bytes before = must_read("memory_" + std::to_string(number) + ".before");
    memcpy(found->data() + one.offset, before.data() + one.offset, 8);
  }
}

int main() {
  CALL(cuInit(0));
  for (const Range& one : reservations) {  // before there is a context, which takes addresses for itself
    CUdeviceptr found;
    CALL(cuMemAddressReserve(&found, one.size, 0, one.address, 0));
    if (found != one.address) again();
  }
  CUcontext context;
  CALL(cuDevicePrimaryCtxRetain(&context, 0));
  CALL(cuCtxSetCurrent(context));
  for (const Range& one : limits) CALL(cuCtxSetLimit(static_cast<CUlimit>(one.address), one.size));
  for (const Range& one : mappings) map(one);
  Gpu gpu;
  load(gpu);
  restore(gpu);
  operations(gpu);
  CALL(cuCtxSynchronize());
  size_t wrong = 0, compared = 0;
  for (size_t i = 0; i < memory.size(); ++i) {
    Bytes wanted, found(memory[i].size);
    if (!read("memory_" + std::to_string(i) + ".after", &wanted)) continue;
    ++compared;
    CALL(cuMemcpyDtoH(found.data(), memory[i].address, found.size()));
    unmend(gpu, static_cast<int>(i), &found);
    size_t first = 0;
    while (first < found.size() && found[first] == wanted[first]) ++first;
    if (first == found.size()) continue;
    printf("memory %zu at %#llx: differs from byte %zu on\\n", i, static_cast<unsigned long long>(memory[i].address), first);
    ++wrong;
  }
  printf("%zu of %zu allocations hold the recorded bytes\\n", compared - wrong, compared);
  return wrong == 0 ? 0 : 4;
}
"""
