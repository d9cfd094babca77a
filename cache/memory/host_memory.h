#ifndef KVASIR_CACHE_MEMORY_HOST_MEMORY_H_
#define KVASIR_CACHE_MEMORY_HOST_MEMORY_H_

#include <memory>

#include "cache/memory/device_memory.h"

namespace kvasir {

// DeviceMemory on the host's own RAM, by mmap, mprotect and madvise.
std::unique_ptr<DeviceMemory> MakeHostMemory();

}  // namespace kvasir

#endif  // KVASIR_CACHE_MEMORY_HOST_MEMORY_H_
