/* Every sort of NVTX event, once, with NVIDIA's own headers; no CUDA in sight. */
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static nvtxEventAttributes_t attributes(const char* message) {
  nvtxEventAttributes_t a;
  memset(&a, 0, sizeof a);
  a.version = NVTX_VERSION;
  a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  a.messageType = NVTX_MESSAGE_TYPE_ASCII;
  a.message.ascii = message;
  return a;
}

static void default_domain(void) {
  nvtxRangePushA("outer");
  const int inner = nvtxRangePushW(L"w\u00efde");
  printf("depth %d\n", inner);
  nvtxRangePop();
  nvtxRangePop();
  printf("pop without push %d\n", nvtxRangePop());
  const nvtxRangeId_t id = nvtxRangeStartA("started");
  nvtxMarkA("marked");
  nvtxRangeEnd(id);
}

static void own_domain(void) {
  nvtxDomainHandle_t domain = nvtxDomainCreateA("solver");
  nvtxStringHandle_t registered = nvtxDomainRegisterStringA(domain, "registered");
  nvtxDomainNameCategoryA(domain, 7, "halo");
  nvtxEventAttributes_t a = attributes("");
  a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  a.message.registered = registered;
  a.category = 7;
  a.colorType = NVTX_COLOR_ARGB;
  a.color = 0xff00ff00u;
  a.payloadType = NVTX_PAYLOAD_TYPE_DOUBLE;
  a.payload.dValue = 2.5;
  nvtxDomainRangePushEx(domain, &a);
  nvtxDomainRangePop(domain);
  nvtxEventAttributes_t b = attributes("unnamed category");
  b.category = 12;
  nvtxDomainMarkEx(domain, &b);
  nvtxDomainDestroy(domain);
}

typedef struct {
  uint32_t rank;
  float loss;
  char phase[8];
} Step;

static void extended_payload(void) {
  static const nvtxPayloadSchemaEntry_t entries[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_UINT32, "rank", 0, 0, offsetof(Step, rank), 0, 0},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_FLOAT, "loss", 0, 0, offsetof(Step, loss), 0, 0},
      {NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE, NVTX_PAYLOAD_ENTRY_TYPE_CHAR, "phase", 0, 8,
       offsetof(Step, phase), 0, 0},
  };
  nvtxDomainHandle_t domain = nvtxDomainCreateA("payloads");
  nvtxPayloadSchemaAttr_t schema;
  memset(&schema, 0, sizeof schema);
  schema.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
  schema.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
  schema.entries = entries;
  schema.numEntries = 3;
  schema.payloadStaticSize = sizeof(Step);
  const uint64_t id = nvtxPayloadSchemaRegister(domain, &schema);
  const Step step = {3, 0.5f, "warm\"up"};
  nvtxPayloadData_t data = {id, sizeof step, &step};
  nvtxEventAttributes_t a = attributes("step");
  a.payloadType = NVTX_PAYLOAD_TYPE_EXT;
  a.reserved0 = 1;
  a.payload.ullValue = (uint64_t)(uintptr_t)&data;
  nvtxDomainMarkEx(domain, &a);
  nvtxMarkPayload(domain, &data, 1);
}

typedef struct {
  nvtxStringHandle_t operation;
  uint64_t number;
} Turn;

typedef struct {
  const char* text;
} Told;

// The same few payloads again and again, as a loop attaches them; `text` may point at the same place and mean
// something new.
static void repeated_payloads(void) {
  static const nvtxPayloadSchemaEntry_t entries[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE, "operation", 0, 0, offsetof(Turn, operation),
       0, 0},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "number", 0, 0, offsetof(Turn, number), 0, 0},
  };
  static const nvtxPayloadSchemaEntry_t told_entries[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_CSTRING, "text", 0, 0, offsetof(Told, text), 0, 0},
  };
  nvtxDomainHandle_t domain = nvtxDomainCreateA("turns");
  nvtxPayloadSchemaAttr_t schema;
  memset(&schema, 0, sizeof schema);
  schema.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
  schema.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
  schema.entries = entries;
  schema.numEntries = 2;
  schema.payloadStaticSize = sizeof(Turn);
  const uint64_t id = nvtxPayloadSchemaRegister(domain, &schema);
  schema.entries = told_entries;
  schema.numEntries = 1;
  schema.payloadStaticSize = sizeof(Told);
  const uint64_t told_id = nvtxPayloadSchemaRegister(domain, &schema);
  const nvtxStringHandle_t names[2] = {nvtxDomainRegisterStringA(domain, "multiply"),
                                       nvtxDomainRegisterStringA(domain, "add")};
  nvtxEventAttributes_t a = attributes("turn");
  a.payloadType = NVTX_PAYLOAD_TYPE_EXT;
  a.reserved0 = 1;
  for (uint64_t i = 0; i < 2001; ++i) {
    const Turn turn = {names[i % 2], i % 3};
    const nvtxPayloadData_t data = {id, sizeof turn, &turn};
    a.payload.ullValue = (uint64_t)(uintptr_t)&data;
    nvtxDomainMarkEx(domain, &a);
  }
  char text[8] = "first";
  const Told told = {text};
  const nvtxPayloadData_t data = {told_id, sizeof told, &told};
  a.message.ascii = "told";
  a.payload.ullValue = (uint64_t)(uintptr_t)&data;
  nvtxDomainMarkEx(domain, &a);
  strcpy(text, "second");
  nvtxDomainMarkEx(domain, &a);
}

/* `count` payloads in turn, again and again. */
static void many_payloads(uint64_t count, uint64_t turns) {
  static const nvtxPayloadSchemaEntry_t entries[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "number", 0, 0, 0, 0, 0},
  };
  nvtxDomainHandle_t domain = nvtxDomainCreateA("many");
  nvtxPayloadSchemaAttr_t schema;
  memset(&schema, 0, sizeof schema);
  schema.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
  schema.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
  schema.entries = entries;
  schema.numEntries = 1;
  schema.payloadStaticSize = sizeof(uint64_t);
  const uint64_t id = nvtxPayloadSchemaRegister(domain, &schema);
  nvtxEventAttributes_t a = attributes("one of many");
  a.payloadType = NVTX_PAYLOAD_TYPE_EXT;
  a.reserved0 = 1;
  for (uint64_t i = 0; i < count * turns; ++i) {
    const uint64_t number = i % count;
    const nvtxPayloadData_t data = {id, sizeof number, &number};
    a.payload.ullValue = (uint64_t)(uintptr_t)&data;
    nvtxDomainMarkEx(domain, &a);
  }
}

/* As XLA does: no domain, no ranges. Each turn has a range around `count` others. */
static void xla(int turns, int count) {
  nvtxDomainHandle_t domain = nvtxDomainCreateA("TSL");
  printf("TSL %s\n", domain != NULL ? "listens" : "does not listen");
  nvtxEventAttributes_t a = attributes("thunk");
  for (int i = 0; domain != NULL && i < turns; ++i) {
    nvtxDomainRangePushEx(domain, &a);
    for (int j = 0; j < count; ++j) {
      nvtxDomainRangePushEx(domain, &a);
      nvtxDomainRangePop(domain);
    }
    nvtxDomainRangePop(domain);
  }
}

static void* named_thread(void* unused) {
  nvtxNameOsThreadA((uint32_t)syscall(SYS_gettid), "loader");
  nvtxRangePushA("in a thread");
  nvtxRangePop();
  return unused;
}

int main(int count, char** arguments) {
  if (count == 4 && strcmp(arguments[1], "payloads") == 0) {
    many_payloads(strtoull(arguments[2], NULL, 10), strtoull(arguments[3], NULL, 10));
    return 0;
  }
  if (count == 4 && strcmp(arguments[1], "xla") == 0) {
    xla(atoi(arguments[2]), atoi(arguments[3]));
    return 0;
  }
  default_domain();
  own_domain();
  extended_payload();
  repeated_payloads();
  pthread_t thread;
  pthread_create(&thread, NULL, named_thread, NULL);
  pthread_join(thread, NULL);
  return 0;
}
