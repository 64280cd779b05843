// Steps in the NVTX range "cut" that no rule of the prediction was made with: `unseen NAME`.
//   pipeline: pieces are copied to the GPU and worked on, in one stream.
//   contended: kernels that use all memory bandwidth and kernels of few blocks that compute, in turn, in one
//   stream. shapes: many kernels of different shapes and lengths in one stream. stages: two streams that wait
//   for each other's events at each stage.
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

#include <cstring>

__global__ void scale_all(float4* values, int count, float by) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    float4 value = values[i];
    value.x *= by, value.y *= by, value.z *= by, value.w *= by;
    values[i] = value;
  }
}
__global__ void iterate(float* values, int rounds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value = values[i];
  for (int round = 0; round < rounds; ++round) value = sqrtf(value * value + 0.25f);
  values[i] = value;
}
__global__ void refine(float* values, int rounds) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value = values[i];
  for (int round = 0; round < rounds; ++round) value = fmaf(value, 0.999f, 0.125f);
  values[i] = value;
}
__global__ void add_up(const float* values, float* total, int count) {
  float sum = 0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) sum += values[i];
  __shared__ float sums[256];
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) *total = sums[0];
}

constexpr int kPiece = 1 << 20, kLarge = 1 << 25;
float *large, *small, *total, *host;
cudaStream_t one, two;
cudaEvent_t made, used;

void pipeline() {
  for (int i = 0; i < 8; ++i) {
    cudaMemcpyAsync(large + i * kPiece, host + i * kPiece, kPiece * sizeof(float), cudaMemcpyHostToDevice,
                    one);
    iterate<<<kPiece / 256, 256, 0, one>>>(large + i * kPiece, 150);
  }
}
void contended() {
  for (int i = 0; i < 12; ++i) {
    scale_all<<<528, 512, 0, one>>>(reinterpret_cast<float4*>(large), kLarge / 4, 1.0001f);
    iterate<<<20, 256, 0, one>>>(small, 2500);
  }
}
void shapes() {
  for (int i = 0; i < 250; ++i) {
    if (i % 3 == 0) iterate<<<1 + i, 64 + 32 * (i % 5), 0, one>>>(small, 20 + i);
    if (i % 3 == 1) refine<<<4 * (1 + i % 60), 256, 0, one>>>(small, 200 + 4 * i);
    if (i % 3 == 2) add_up<<<1, 256, 0, one>>>(small, total, 256 * (1 + i % 16));
  }
}
void stages() {
  for (int i = 0; i < 15; ++i) {
    iterate<<<66, 256, 0, one>>>(small, 900);
    cudaEventRecord(made, one);
    refine<<<200, 256, 0, one>>>(small + (1 << 19), 3000);
    cudaStreamWaitEvent(two, made, 0);
    add_up<<<1, 256, 0, two>>>(small, total, 1 << 14);
    scale_all<<<264, 256, 0, two>>>(reinterpret_cast<float4*>(large), kLarge / 16, 1.0001f);
    cudaEventRecord(used, two);
    cudaStreamWaitEvent(one, used, 0);
  }
}
void download() {
  for (int i = 0; i < 8; ++i) {
    refine<<<kPiece / 256, 256, 0, one>>>(large + i * kPiece, 600);
    cudaMemcpyAsync(host + i * kPiece, large + i * kPiece, kPiece * sizeof(float), cudaMemcpyDeviceToHost,
                    one);
  }
}
void fan() {
  for (int i = 0; i < 10; ++i) {
    scale_all<<<132, 256, 0, one>>>(reinterpret_cast<float4*>(small), kPiece / 4, 1.0001f);
    for (int j = 0; j < 3; ++j) {
      iterate<<<16, 128, 0, one>>>(small, 1500);
      refine<<<24, 128, 0, one>>>(small + (1 << 18), 4000);
    }
  }
}
void crowded() {
  for (int i = 0; i < 12; ++i) {
    scale_all<<<264, 1024, 0, one>>>(reinterpret_cast<float4*>(large), kLarge / 8, 1.0001f);
    iterate<<<50, 512, 0, two>>>(small, 1500);
    cudaEventRecord(made, two);
    cudaStreamWaitEvent(one, made, 0);
    refine<<<400, 256, 0, one>>>(small + (1 << 19), 2500);
  }
}
void clears() {
  for (int i = 0; i < 120; ++i) {
    cudaMemsetAsync(small, 0, 1 << 16, one);
    iterate<<<40, 256, 0, one>>>(small, 60);
  }
}

struct Named {
  const char* name;
  void (*step)();
};
const Named kSteps[] = {{"pipeline", pipeline}, {"contended", contended}, {"shapes", shapes},
                        {"stages", stages},     {"download", download},   {"fan", fan},
                        {"crowded", crowded},   {"clears", clears}};

int main(int, char** argv) {
  cudaMalloc(&large, kLarge * sizeof(float));
  cudaMalloc(&small, kPiece * sizeof(float));
  cudaMalloc(&total, sizeof(float));
  cudaMallocHost(&host, 8 * kPiece * sizeof(float));
  cudaMemset(large, 0, kLarge * sizeof(float));
  cudaMemset(small, 0, kPiece * sizeof(float));
  for (int i = 0; i < 8 * kPiece; ++i) host[i] = static_cast<float>(i % 1000);
  cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&made, cudaEventDisableTiming);
  cudaEventCreateWithFlags(&used, cudaEventDisableTiming);
  void (*step)() = nullptr;
  for (const Named& named : kSteps)
    if (strcmp(argv[1], named.name) == 0) step = named.step;
  if (step == nullptr) return 2;
  for (int pass = 0; pass < 3; ++pass) {
    if (pass == 1) nvtxRangePushA("cut");
    step();
    cudaStreamSynchronize(one);
    cudaStreamSynchronize(two);
    if (pass == 1) nvtxRangePop();
  }
  return cudaDeviceSynchronize() != cudaSuccess;
}
