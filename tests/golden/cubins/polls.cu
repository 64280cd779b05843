// Loops that wait for a value in memory, and loops that only look like it.
#include <cooperative_groups.h>
struct Node {
  Node* next;
};

extern "C" __global__ void flag(volatile int* f, int* out) {
  while (*f == 0) {
  }
  out[0] = 1;
}
extern "C" __global__ void sleeping(volatile int* f, int* out) {
  while (*f == 0) __nanosleep(100);
  out[0] = 1;
}
extern "C" __global__ void generic(int* f, int* out) {
  int seen;
  do asm volatile("ld.acquire.gpu.b32 %0, [%1];" : "=r"(seen) : "l"(f + 3) : "memory");
  while (seen == 0);
  out[0] = 1;
}
extern "C" __global__ void shared_flag(int* out) {
  __shared__ volatile int f;
  if (threadIdx.x == 0) f = 0;
  __syncthreads();
  if (threadIdx.x >= 32) {
    while (f == 0) {
    }
  }
  out[0] = 1;
}
extern "C" __global__ void swap_lock(int* lock, int* out) {
  while (atomicCAS(lock, 0, 1) != 0) {
  }
  out[0] = 1;
}
extern "C" __global__ void exchange_lock(int* lock, int* out) {
  while (atomicExch(lock + 1, 1) != 0) __nanosleep(20);
  out[0] = 1;
}
extern "C" __global__ void read_by_atomic(unsigned long long* f, int* out) {
  while (atomicAdd(f, 0ull) == 0) {
  }
  out[0] = 1;
}
// Looks at a second flag now and then, as collectives do; the first one is what it waits for.
extern "C" __global__ void with_abort(volatile unsigned long long* step, unsigned long long wanted,
                                      volatile int* abort, int* out) {
  int turns = 0;
  while (*step < wanted) {
    if (++turns == 10000) {
      turns = 0;
      if (*abort) break;
    }
  }
  out[0] = 1;
}
extern "C" __global__ void with_timeout(volatile int* f, int* out) {
  long long begin = clock64();
  while (*f == 0 && clock64() - begin < 1000000000ll) {
  }
  out[0] = 1;
}
// A barrier of the grid: it counts its blocks in memory and reads how many there are.
extern "C" __global__ void counter(volatile unsigned* arrived, int* out) {
  atomicAdd(const_cast<unsigned*>(arrived), 1);
  while (*arrived < gridDim.x) {
  }
  out[0] = 1;
}
extern "C" __global__ void grid_sync(int* out) {
  cooperative_groups::this_grid().sync();
  out[0] = 1;
}

extern "C" __global__ void sum(const int* data, int count, int* out) {
  int total = 0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) total += data[i];
  out[0] = total;
}
extern "C" __global__ void search(const int* data, int* out) {
  int i = 0;
  while (data[i] != 7) i++;
  out[0] = i;
}
extern "C" __global__ void list(Node* node, Node** out) {
  while (node->next) node = node->next;
  out[0] = node;
}
extern "C" __global__ void queue(int* next, int count, int* out) {
  for (int i; (i = atomicAdd(next, 1)) < count;) out[i] = 1;
}
extern "C" __global__ void writing(volatile int* f, int* out) {
  for (int i = 0; *f == 0; i++) out[i] = i;
}
