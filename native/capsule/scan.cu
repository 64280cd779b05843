// scan.ptx is made from this file (scripts/generate_patches.py) and assembled by the driver of the recorded
// program.

// Holds the work behind it in its stream until `opened` has reached `number`, or for `most_ns`.
extern "C" __global__ void ws_gate(const volatile unsigned int* opened, unsigned int number,
                                   unsigned long long most_ns) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (static_cast<int>(*opened - number) < 0 && now - begin < most_ns);
}

// Finds which blocks of memory are pointed to from memory: every aligned 8-byte word that is an address
// inside of one.
extern "C" __global__ void ws_scan(const unsigned long long* words, unsigned long long count,
                                   const unsigned long long* begins, const unsigned long long* ends,
                                   unsigned int blocks, unsigned int* found) {
  const unsigned long long low = begins[0], high = ends[blocks - 1];
  const unsigned long long step = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
  for (unsigned long long i = blockIdx.x * static_cast<unsigned long long>(blockDim.x) + threadIdx.x;
       i < count; i += step) {
    const unsigned long long word = words[i];
    if (word < low || word >= high) continue;
    unsigned int first = 0, last = blocks;  // the last block that begins at or before the word
    while (last - first > 1) {
      const unsigned int middle = (first + last) / 2;
      if (begins[middle] <= word)
        first = middle;
      else
        last = middle;
    }
    if (word < ends[first] && found[first] == 0) found[first] = 1;
  }
}
