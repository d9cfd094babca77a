#ifndef KVASIR_SERVER_PAGE_H_
#define KVASIR_SERVER_PAGE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace kvasir {

// Most entries of one answer to a List call; a page size of 0 or more than this
// means this.
inline constexpr int32_t kMaxPageSize = 100;

// The entries [begin, end) of a list, and the token of those that follow; empty
// if none do.
struct Page {
  size_t begin = 0;
  size_t end = 0;
  std::string next_token;
};

// The page that a call asks for. `ids` are those of the whole list, ascending,
// and stay with their entries, so that entries which come and go between two
// calls make no other appear twice or not at all. INVALID_ARGUMENT for a
// negative size or a token that this server never gave. Pure.
absl::StatusOr<Page> FindPage(int32_t page_size, std::string_view page_token,
                              absl::Span<const int64_t> ids);

}  // namespace kvasir

#endif  // KVASIR_SERVER_PAGE_H_
