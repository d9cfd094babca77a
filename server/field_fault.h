#ifndef KVASIR_SERVER_FIELD_FAULT_H_
#define KVASIR_SERVER_FIELD_FAULT_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "server/text.h"

namespace kvasir {

// What is wrong with a field of a request, in the words that BadRequest is made
// from: "field: wanted ..., found ...".
template <typename Wanted, typename Found>
absl::Status FieldFault(std::string_view field, const Wanted& wanted,
                        const Found& found) {
  return absl::InvalidArgumentError(
      absl::StrCat(View(field), ": wanted ", wanted, ", found ", found));
}

}  // namespace kvasir

#endif  // KVASIR_SERVER_FIELD_FAULT_H_
