// What every NVBit tool has once, in device code.
#include "nvbit_tool.h"
