// Putting functions of ours where a program's NVTX calls go.
#pragma once

#include <cstddef>

#include "nvtx/abi.h"

namespace warpsight::nvtx {

// A place in one of the tables that NVTX calls go through.
struct Entry {
  int module;
  unsigned number;
  Function function;
};

template <class F>
Function cast(F* function) {
  return reinterpret_cast<Function>(function);
}

// Fills the entries that the program's tables have; false if the tables are unknown.
template <size_t count>
bool fill_tables(GetExportTable get_export_table, const Entry (&entries)[count]) {
  const auto* callbacks = static_cast<const CallbacksTable*>(get_export_table(kCallbacksTable));
  if (callbacks == nullptr || callbacks->struct_size < sizeof(CallbacksTable)) return false;
  for (const Entry& entry : entries) {
    Function** table = nullptr;
    unsigned size = 0;
    if (callbacks->module_function_table(entry.module, &table, &size) == 0 || table == nullptr) continue;
    if (entry.number < size && table[entry.number] != nullptr) *table[entry.number] = entry.function;
  }
  return true;
}

}  // namespace warpsight::nvtx
