#ifndef KVASIR_SERVER_TRACE_CONTEXT_H_
#define KVASIR_SERVER_TRACE_CONTEXT_H_

#include <string_view>

namespace kvasir {

// The trace id in a `traceparent` header (W3C Trace Context, version 00):
// "00-" 32 hex digits, "-", 16 hex digits, "-", 2 hex digits, all in lower
// case, neither id all zeros. Empty for anything else, which is ignored rather
// than refused: a request is worth more than its trace. The result lies in
// `traceparent`.
std::string_view TraceIdIn(std::string_view traceparent);

}  // namespace kvasir

#endif  // KVASIR_SERVER_TRACE_CONTEXT_H_
