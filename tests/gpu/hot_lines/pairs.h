// Pairs of kernels: one with a planted slow line, and its repair with the same results.
//   PROGRAM sample MILLISECONDS [NAME]   launches each slow kernel that long
//   PROGRAM time                         prints, for each pair, the median microseconds of both and whether
//   results agree
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

namespace {

constexpr int kFloats = 1 << 24;
// Launches between two events, so that the time of a launch itself does not count.
constexpr int kInTurn = 8;

void check(cudaError_t result) {
  if (result == cudaSuccess) return;
  fprintf(stderr, "%s\n", cudaGetErrorString(result));
  exit(1);
}

struct Arrays {
  float *in, *out;
  int *numbers, *bins;
};

struct Pair {
  const char* name;
  std::function<void()> slow, fast;
};

Arrays filled() {
  Arrays a = {};
  check(cudaMalloc(&a.in, kFloats * sizeof(float)));
  check(cudaMalloc(&a.out, kFloats * sizeof(float)));
  check(cudaMalloc(&a.numbers, kFloats * sizeof(int)));
  check(cudaMalloc(&a.bins, 1 << 16));
  std::vector<float> floats(kFloats);
  std::vector<int> numbers(kFloats);
  unsigned state = 12345;
  for (int i = 0; i < kFloats; ++i) {
    state = state * 1664525u + 1013904223u;
    floats[i] = static_cast<float>(state >> 16) / 65536.0f;
    numbers[i] = static_cast<int>(state >> 8) & (kFloats - 1);
  }
  check(cudaMemcpy(a.in, floats.data(), kFloats * sizeof(float), cudaMemcpyHostToDevice));
  check(cudaMemcpy(a.numbers, numbers.data(), kFloats * sizeof(int), cudaMemcpyHostToDevice));
  return a;
}

double sum_of(const Arrays& a, const std::function<void()>& launch) {
  check(cudaMemset(a.out, 0, kFloats * sizeof(float)));
  check(cudaMemset(a.bins, 0, 1 << 16));
  launch();
  std::vector<float> out(kFloats);
  std::vector<int> bins((1 << 16) / sizeof(int));
  check(cudaMemcpy(out.data(), a.out, kFloats * sizeof(float), cudaMemcpyDeviceToHost));
  check(cudaMemcpy(bins.data(), a.bins, 1 << 16, cudaMemcpyDeviceToHost));
  double sum = 0;
  for (const float one : out) sum += one;
  for (size_t i = 0; i < bins.size(); ++i) sum += static_cast<double>(bins[i]) * static_cast<double>(i + 1);
  return sum;
}

void time_pairs(const Arrays& a, const std::vector<Pair>& pairs) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  for (const Pair& pair : pairs) {
    const double slow_sum = sum_of(a, pair.slow), fast_sum = sum_of(a, pair.fast);
    std::vector<float> times[2];
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(400);
    for (int turn = 0; turn < 8 || (turn < 200 && std::chrono::steady_clock::now() < until); ++turn) {
      for (int arm = 0; arm < 2; ++arm) {
        float milliseconds = 0;
        check(cudaEventRecord(begin));
        for (int k = 0; k < kInTurn; ++k) arm == 0 ? pair.slow() : pair.fast();
        check(cudaEventRecord(end));
        check(cudaEventSynchronize(end));
        check(cudaEventElapsedTime(&milliseconds, begin, end));
        if (turn >= 3) times[arm].push_back(milliseconds * 1000 / kInTurn);
      }
    }
    float median[2];
    for (int arm = 0; arm < 2; ++arm) {
      std::sort(times[arm].begin(), times[arm].end());
      median[arm] = times[arm][times[arm].size() / 2];
    }
    const bool same = std::abs(slow_sum - fast_sum) <= 1e-4 * std::abs(slow_sum) + 1e-6;
    printf("%s %.2f %.2f %s\n", pair.name, median[0], median[1], same ? "same" : "DIFFERENT");
    if (!same) printf("# %s: %.9g is not %.9g\n", pair.name, slow_sum, fast_sum);
  }
}

void sample_pairs(const std::vector<Pair>& pairs, long milliseconds, const char* only) {
  for (const Pair& pair : pairs) {
    if (only != nullptr && strcmp(only, pair.name) != 0) continue;
    pair.slow();  // the first launch may take long
    check(cudaDeviceSynchronize());
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    long launches = 1;
    do {
      for (int i = 0; i < 4; ++i, ++launches) pair.slow();
      check(cudaDeviceSynchronize());
    } while (std::chrono::steady_clock::now() < until);
    printf("%s: %ld launches\n", pair.name, launches);
  }
}

int run_pairs(int argc, char** argv, const Arrays& a, const std::vector<Pair>& pairs) {
  if (argc == 2 && strcmp(argv[1], "time") == 0) return time_pairs(a, pairs), 0;
  if (argc >= 3 && strcmp(argv[1], "sample") == 0)
    return sample_pairs(pairs, atol(argv[2]), argc > 3 ? argv[3] : nullptr), 0;
  return 2;
}

}  // namespace
