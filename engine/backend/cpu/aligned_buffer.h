#ifndef KVASIR_ENGINE_BACKEND_CPU_ALIGNED_BUFFER_H_
#define KVASIR_ENGINE_BACKEND_CPU_ALIGNED_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace kvasir {

// A cache line, and the widest vector of any CPU we have kernels for.
constexpr size_t kBufferAlignment = 64;

// Elements that fill whole cache lines and hold at least `count` floats, so
// that rows of a buffer start on lines of their own.
constexpr int64_t RoundUpToLine(int64_t count) {
  constexpr int64_t kFloats = kBufferAlignment / sizeof(float);
  return (count + kFloats - 1) / kFloats * kFloats;
}

struct AlignedDelete {
  void operator()(void* memory) const {
    ::operator delete (memory, std::align_val_t{kBufferAlignment});
  }
};

// Uninitialised memory on a cache line's border, owned like a unique_ptr.
template <typename T>
using AlignedArray = std::unique_ptr<T[], AlignedDelete>;

// Null if the system has no more.
template <typename T>
AlignedArray<T> AllocateAligned(int64_t count) {
  return AlignedArray<T>(static_cast<T*>(::operator new (
      count * sizeof(T), std::align_val_t{kBufferAlignment}, std::nothrow)));
}

}  // namespace kvasir

#endif  // KVASIR_ENGINE_BACKEND_CPU_ALIGNED_BUFFER_H_
