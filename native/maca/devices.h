// Rows of MetaX devices, by MACA's runtime.
#pragma once

#include <cstdint>

namespace warpsight {

// Writes the row of a device that work was seen on. On the worker thread, once per device.
void write_maca_device(uint32_t index);

// A row of table `clock` for each of these devices: MCPTI's time alongside ours.
void write_maca_clocks();

}  // namespace warpsight
