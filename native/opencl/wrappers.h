// The functions we put in front of the target's, by file. Signatures are those of the dispatch table.
#pragma once

#include "functions.h"

namespace warpsight {

// Puts our wrappers into a table that already holds the target's entries. An entry the target lacks stays
// empty.
void wrap_queues(cl_icd_dispatch* table);
void wrap_kernels(cl_icd_dispatch* table);
void wrap_buffer_copies(cl_icd_dispatch* table);
void wrap_image_copies(cl_icd_dispatch* table);
void wrap_maps(cl_icd_dispatch* table);
void wrap_fills(cl_icd_dispatch* table);
void wrap_svm(cl_icd_dispatch* table);
void wrap_order(cl_icd_dispatch* table);
void wrap_memory(cl_icd_dispatch* table);
void wrap_programs(cl_icd_dispatch* table);
// Times every function without a wrapper of its own that was requested (WARPSIGHT_API=all, or by name).
void wrap_rest(cl_icd_dispatch* table);

#define WS_WRAP(table, name) \
  if ((table)->name) (table)->name = layer_##name

}  // namespace warpsight
