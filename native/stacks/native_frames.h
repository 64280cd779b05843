// Native frames of the calling thread: return addresses now, modules and names once per distinct address.
#pragma once

#include <cstdint>

namespace warpsight {

// Return addresses of the calling thread, innermost first; how many. Does not lock or allocate once a thread
// has done it before.
uint32_t return_addresses(uint64_t* addresses, uint32_t limit);

// The facts about an address that the merge needs.
enum class AddressKind { plain, ours, interpreter, evaluator };

// Addresses seen in this process. Not thread-safe: the caller holds the lock of stack definitions.
AddressKind address_kind(uint64_t address);
// The id of the frame that a return address is in; 0 when it could not be defined.
uint32_t native_frame(uint64_t address);

// Reads the module list again, if libraries were loaded or unloaded. True when one was unloaded: ids
// remembered by address are void.
bool refresh_modules();
void forget_native_frames();  // in a forked child

}  // namespace warpsight
