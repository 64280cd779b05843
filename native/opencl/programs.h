// Programs: their names in rows.
#pragma once

#include "functions.h"

namespace warpsight {

// The id of the program's Module row; 0 for one that was never built before our eyes.
uint32_t module_of(cl_program program);

}  // namespace warpsight
