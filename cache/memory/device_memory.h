#ifndef KVASIR_CACHE_MEMORY_DEVICE_MEMORY_H_
#define KVASIR_CACHE_MEMORY_DEVICE_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kvasir {

// One contiguous range of addresses on a device, reserved once, whose pages are
// committed and given back as the pool grows and shrinks. Pointers into the
// range therefore never move.
//
// Owned by the arena on top of it; engine thread only. Destroying it releases
// pages and addresses.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // Reserves addresses for `bytes` (rounded up to the granule), costing no
  // memory. Called once. RESOURCE_EXHAUSTED if the address space is not to be
  // had.
  virtual absl::StatusOr<std::byte*> Reserve(int64_t bytes) = 0;

  // Makes [offset, offset + bytes) readable and writable, with unspecified
  // content. Both are multiples of GranuleBytes(). RESOURCE_EXHAUSTED names
  // wanted and committed bytes; the range is then as before.
  virtual absl::Status Commit(int64_t offset, int64_t bytes) = 0;

  // Gives the pages of a committed range back to the system.
  virtual void Decommit(int64_t offset, int64_t bytes) = 0;

  virtual int64_t GranuleBytes() const = 0;
  virtual int64_t committed_bytes() const = 0;
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_MEMORY_DEVICE_MEMORY_H_
