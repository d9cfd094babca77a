#ifndef KVASIR_SERVER_CLI_PROGRESS_CALL_H_
#define KVASIR_SERVER_CLI_PROGRESS_CALL_H_

#include <optional>

#include "grpcpp/grpcpp.h"

#include "server/cli/client.h"
#include "server/cli/interrupt.h"

namespace kvasir::cli {

// How a call ended that tells how far it is, and the last that it told.
template <typename Report>
struct Followed {
  grpc::Status status;
  Report last;
};

// Begins the call by `start(context)`, which gives its reader, and hands each
// report to `tell`. It may take as long as it needs; Ctrl-C cancels it.
template <typename Report, typename Start, typename Tell>
Followed<Report> Follow(const Client& client, Start start, Tell tell) {
  grpc::ClientContext context;
  client.SetDeadline(context, std::nullopt);
  const OnInterrupt cancel([&context] { context.TryCancel(); });
  const auto reader = start(&context);
  Followed<Report> followed;
  while (reader->Read(&followed.last)) tell(followed.last);
  followed.status = reader->Finish();
  return followed;
}

}  // namespace kvasir::cli

#endif  // KVASIR_SERVER_CLI_PROGRESS_CALL_H_
