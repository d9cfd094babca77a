#include "server/page.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "cache/base/check.h"
#include "cache/base/status_macros.h"
#include "server/text.h"

namespace kvasir {
namespace {

constexpr const char* kTokenStart = "after-";

// The id that a page comes after; -1: the list's beginning.
absl::StatusOr<int64_t> DecodeToken(std::string_view token) {
  if (token.empty()) return -1;
  absl::string_view digits = View(token);
  int64_t id = -1;
  if (absl::ConsumePrefix(&digits, kTokenStart) &&
      absl::SimpleAtoi(digits, &id) && id >= 0 &&
      absl::StrCat(kTokenStart, id) == View(token)) {
    return id;
  }
  return absl::InvalidArgumentError(
      "page_token: wanted one from a previous answer, found another");
}

}  // namespace

absl::StatusOr<Page> FindPage(int32_t page_size, std::string_view page_token,
                              absl::Span<const int64_t> ids) {
  if (page_size < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "page_size: wanted 0 to ", kMaxPageSize, ", found ", page_size));
  }
  KV_CHECK(std::is_sorted(ids.begin(), ids.end()));
  ASSIGN_OR_RETURN(const int64_t after, DecodeToken(page_token));
  const auto size = static_cast<size_t>(
      page_size == 0 ? kMaxPageSize : std::min(page_size, kMaxPageSize));
  Page page;
  page.begin = static_cast<size_t>(
      std::upper_bound(ids.begin(), ids.end(), after) - ids.begin());
  page.end = std::min(page.begin + size, ids.size());
  if (page.end < ids.size()) {
    page.next_token = absl::StrCat(kTokenStart, ids[page.end - 1]);
  }
  return page;
}

}  // namespace kvasir
