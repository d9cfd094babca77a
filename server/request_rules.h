#ifndef KVASIR_SERVER_REQUEST_RULES_H_
#define KVASIR_SERVER_REQUEST_RULES_H_

#include "absl/status/status.h"

#include "kvasir/v1/inference.pb.h"

namespace kvasir {

// That nothing in a request is ignored silently. Every field that is set must
// be one this server honours, or carry the neutral value that inference.proto
// documents for it; any other is UNIMPLEMENTED by its name. Fields that the
// message does not have are ScanRequest()'s to refuse.
//
// Fields are found by reflection: one that is added to the message is refused
// until it is entered in the table of request_rules.cc.
absl::Status CheckKnownFields(const v1::GenerateRequest& request);
absl::Status CheckKnownFields(const v1::TokenizeRequest& request);

}  // namespace kvasir

#endif  // KVASIR_SERVER_REQUEST_RULES_H_
