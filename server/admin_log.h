#ifndef KVASIR_SERVER_ADMIN_LOG_H_
#define KVASIR_SERVER_ADMIN_LOG_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "google/protobuf/message.h"

namespace kvasir {

// A method with which operators change something.
struct AdminOperation {
  const char* op;      // in metrics and the log
  const char* method;  // its full name
};

// All of them.
absl::Span<const AdminOperation> AdminOperations();

// What `method` is called there; null if it changes nothing.
const char* AdminOperationOf(std::string_view method);

// Who asked for what, for the log line of a call's end.
struct AdminNote {
  std::string who;
  std::string what;  // see ChangeIn()
};

// Most bytes of AdminNote::what.
inline constexpr size_t kMaxChangeBytes = 512;

// The fields that are set in a request, "target.blocks=20 strategy=WAIT", in
// the order of their numbers. Of what may be a prompt, messages in a list,
// there is the count alone; a salt is "[salt]".
std::string ChangeIn(const google::protobuf::Message& request);

// Writes a line for the end of a call to `method` with what became of it, if
// it is one of those above. Any thread but the engine's.
void LogAdminCall(std::string_view method, const AdminNote& note,
                  const absl::Status& status);

}  // namespace kvasir

#endif  // KVASIR_SERVER_ADMIN_LOG_H_
