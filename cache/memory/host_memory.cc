#include "cache/memory/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

#include "cache/base/check.h"

namespace kvasir {
namespace {

// The range begins at a border of a huge page, so that the kernel can use them.
constexpr int64_t kHugePageBytes = int64_t{2} << 20;

int64_t RoundUp(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

class HostMemory final : public DeviceMemory {
 public:
  HostMemory() : page_bytes_(sysconf(_SC_PAGESIZE)) {}

  ~HostMemory() override {
    if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
  }

  absl::StatusOr<std::byte*> Reserve(int64_t bytes) override {
    KV_CHECK(base_ == nullptr) << "reserved before";
    KV_CHECK(bytes > 0) << bytes;
    reserved_bytes_ = RoundUp(bytes, page_bytes_);
    const int64_t mapping_bytes = reserved_bytes_ + kHugePageBytes;
    void* const mapping =
        mmap(nullptr, mapping_bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no address range of ", mapping_bytes,
                       " bytes for the cache: ", std::strerror(errno)));
    }
    mapping_ = mapping;
    mapping_bytes_ = mapping_bytes;
    const auto address = reinterpret_cast<uintptr_t>(mapping);
    base_ = static_cast<std::byte*>(mapping) +
            (RoundUp(address, kHugePageBytes) - address);
    return base_;
  }

  absl::Status Commit(int64_t offset, int64_t bytes) override {
    CheckRange(offset, bytes);
    if (mprotect(base_ + offset, bytes, PROT_READ | PROT_WRITE) != 0) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "cannot commit ", bytes, " bytes for the cache beside ",
          committed_bytes_, " committed ones: ", std::strerror(errno)));
    }
    // Only advice: without huge pages the same bytes are there, more slowly.
    (void)madvise(base_ + offset, bytes, MADV_HUGEPAGE);
    committed_bytes_ += bytes;
    return absl::OkStatus();
  }

  void Decommit(int64_t offset, int64_t bytes) override {
    CheckRange(offset, bytes);
    KV_CHECK(madvise(base_ + offset, bytes, MADV_DONTNEED) == 0 &&
             mprotect(base_ + offset, bytes, PROT_NONE) == 0)
        << "[" << offset << ", +" << bytes << "): " << std::strerror(errno);
    committed_bytes_ -= bytes;
  }

  int64_t GranuleBytes() const override { return page_bytes_; }
  int64_t committed_bytes() const override { return committed_bytes_; }

 private:
  void CheckRange(int64_t offset, int64_t bytes) const {
    KV_CHECK(base_ != nullptr) << "nothing reserved";
    KV_CHECK(offset >= 0 && bytes > 0 && offset % page_bytes_ == 0 &&
             bytes % page_bytes_ == 0 && bytes <= reserved_bytes_ - offset)
        << "[" << offset << ", +" << bytes << ") in " << reserved_bytes_
        << " bytes of pages of " << page_bytes_;
  }

  const int64_t page_bytes_;
  void* mapping_ = nullptr;
  int64_t mapping_bytes_ = 0;
  std::byte* base_ = nullptr;
  int64_t reserved_bytes_ = 0;
  int64_t committed_bytes_ = 0;
};

}  // namespace

std::unique_ptr<DeviceMemory> MakeHostMemory() {
  return std::make_unique<HostMemory>();
}

}  // namespace kvasir
