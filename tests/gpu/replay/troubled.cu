// Twenty launches of a kernel that waits for as many µs as it is told: `troubled slow`, where the 13th (12
// from 0) takes longest; `troubled hang [SECONDS]`, where it never ends and the program does after that time;
// `troubled fault`, where it writes to no memory.
#include <cuda_runtime.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

__global__ void wait_for(int* out, int number, long long ns) {
  long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (ns < 0 || now - begin < ns);
  *out += number;
}

int main(int argc, char** argv) {
  int* out;
  cudaMalloc(&out, sizeof(int));
  cudaMemset(out, 0, sizeof(int));
  const bool hang = strcmp(argv[1], "hang") == 0, fault = strcmp(argv[1], "fault") == 0;
  for (int i = 0; i < 20; ++i) {
    const bool odd = i == 12;
    wait_for<<<1, 1>>>(odd && fault ? nullptr : out, i,
                       odd && hang ? -1
                       : odd       ? 200000000
                                   : 20000 + 1000 * i);
  }
  if (hang) {
    for (unsigned left = argc > 2 ? atoi(argv[2]) : 3; left > 0;) left = sleep(left);
    _exit(3);
  }
  return cudaDeviceSynchronize() != cudaSuccess;
}
