#ifndef KVASIR_CACHE_BASE_STATUS_MACROS_H_
#define KVASIR_CACHE_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Early return on a failed absl::Status or absl::StatusOr.
//
//   RETURN_IF_ERROR(file.Seek(offset));
//   ASSIGN_OR_RETURN(const Header header, ReadHeader(file));

#define RETURN_IF_ERROR(expression)                                   \
  do {                                                                \
    if (::absl::Status kv_status_ = (expression); !kv_status_.ok()) { \
      return kv_status_;                                              \
    }                                                                 \
  } while (false)

#define KV_CONCAT_INNER_(a, b) a##b
#define KV_CONCAT_(a, b) KV_CONCAT_INNER_(a, b)
#define KV_ASSIGN_OR_RETURN_(temporary, target, expression)  \
  auto temporary = (expression);                             \
  if (!temporary.ok()) return std::move(temporary).status(); \
  target = *std::move(temporary)
#define ASSIGN_OR_RETURN(target, ...) \
  KV_ASSIGN_OR_RETURN_(KV_CONCAT_(kv_statusor_, __LINE__), target, __VA_ARGS__)

#endif  // KVASIR_CACHE_BASE_STATUS_MACROS_H_
