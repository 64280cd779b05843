// What CUPTI's continuous PC sampling costs a launch, by its period: arms in turn in one process, which
// records kernels beside it.
//   nvcc -O2 -o periods pc_sampling_periods.cu -I$CUDA/extras/CUPTI/include -L$CUDA/extras/CUPTI/lib64
//   -lcupti -lcuda periods [ROUNDS]
#include <cuda.h>
#include <cuda_runtime.h>
#include <cupti.h>
#include <cupti_pcsampling.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int kArms[] = {0, 12, 16, 20, 26, 31, 0};  // log2 of cycles; 0: not sampled
constexpr size_t kPcs = 4096, kReasons = 64;

__global__ void empty() {}
__global__ void spin(long long cycles) {
  for (const long long begin = clock64(); clock64() - begin < cycles;) {
  }
}

double microseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(now).count();
}

void CUPTIAPI requested(uint8_t** buffer, size_t* bytes, size_t* records) {
  *bytes = 8 << 20;
  *buffer = static_cast<uint8_t*>(aligned_alloc(8, *bytes));
  *records = 0;
}
void CUPTIAPI completed(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t) { free(buffer); }
void CUPTIAPI called(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

CUpti_PCSamplingData* new_buffer() {
  auto* data = new CUpti_PCSamplingData{};
  data->size = sizeof *data;
  data->collectNumPcs = kPcs;
  data->pPcData = new CUpti_PCSamplingPCData[kPcs]{};
  for (size_t i = 0; i < kPcs; ++i) {
    data->pPcData[i].size = sizeof data->pPcData[i];
    data->pPcData[i].stallReason = new CUpti_PCSamplingStallReason[kReasons]{};
  }
  return data;
}

bool begin_sampling(CUcontext context, int period, CUpti_PCSamplingData* rest) {
  CUpti_PCSamplingEnableParams on = {CUpti_PCSamplingEnableParamsSize, nullptr, context};
  CUpti_PCSamplingConfigurationInfo info[3] = {};
  info[0].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_COLLECTION_MODE;
  info[0].attributeData.collectionModeData.collectionMode = CUPTI_PC_SAMPLING_COLLECTION_MODE_CONTINUOUS;
  info[1].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_PERIOD;
  info[1].attributeData.samplingPeriodData.samplingPeriod = period;
  info[2].attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_DATA_BUFFER;
  info[2].attributeData.samplingDataBufferData.samplingDataBuffer = rest;
  CUpti_PCSamplingConfigurationInfoParams all = {CUpti_PCSamplingConfigurationInfoParamsSize, nullptr,
                                                 context, 3, info};
  return cuptiPCSamplingEnable(&on) == CUPTI_SUCCESS &&
         cuptiPCSamplingSetConfigurationAttribute(&all) == CUPTI_SUCCESS;
}

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

void measure(std::vector<double>* launches, std::vector<double>* kernels) {
  for (int i = 0; i < 200; ++i) empty<<<1, 32>>>();
  cudaDeviceSynchronize();
  for (int turn = 0; turn < 12; ++turn) {
    const double begin = microseconds();
    for (int i = 0; i < 1000; ++i) empty<<<1, 32>>>();
    launches->push_back((microseconds() - begin) / 1000);
    cudaDeviceSynchronize();
  }
  const double begin = microseconds();
  for (int i = 0; i < 1000; ++i) spin<<<264, 256>>>(15000);
  cudaDeviceSynchronize();
  kernels->push_back((microseconds() - begin) / 1000);
}

}  // namespace

int main(int argc, char** argv) {
  CUpti_SubscriberHandle subscriber;
  cuptiSubscribe(&subscriber, reinterpret_cast<CUpti_CallbackFunc>(called), nullptr);
  cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
  cuptiActivityRegisterCallbacks(requested, completed);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  cudaFree(nullptr);
  CUcontext context = nullptr;
  cuCtxGetCurrent(&context);
  CUpti_PCSamplingData* const rest = new_buffer();
  std::vector<double> launches[std::size(kArms)], kernels[std::size(kArms)];
  size_t samples[std::size(kArms)] = {};
  for (int round = 0; round < (argc > 1 ? atoi(argv[1]) : 3); ++round) {
    for (size_t arm = 0; arm < std::size(kArms); ++arm) {
      if (kArms[arm] != 0 && !begin_sampling(context, kArms[arm], rest)) return puts("no PC sampling"), 1;
      measure(&launches[arm], &kernels[arm]);
      CUpti_PCSamplingDisableParams off = {CUpti_PCSamplingDisableParamsSize, nullptr, context};
      if (kArms[arm] == 0) continue;
      cuptiPCSamplingDisable(&off);
      samples[arm] += rest->totalSamples;
    }
  }
  for (size_t arm = 0; arm < std::size(kArms); ++arm)
    printf("2^%-2d cycles: a launch %.3f us (best tenth %.3f), a kernel of 10 us %.3f us, %zu samples\n",
           kArms[arm], quantile(launches[arm], 0.5), quantile(launches[arm], 0.1),
           quantile(kernels[arm], 0.5), samples[arm]);
}
