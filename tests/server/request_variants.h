#ifndef KVASIR_TESTS_SERVER_REQUEST_VARIANTS_H_
#define KVASIR_TESTS_SERVER_REQUEST_VARIANTS_H_

#include <functional>
#include <string>
#include <vector>

#include "kvasir/v1/inference.pb.h"

namespace kvasir {

// A valid request with one field set to one of the values that its type lets a
// client send: zero, the least, the greatest, what is no number, what is no
// name of an enum, too long, too many.
struct RequestVariant {
  std::string path;    // of the field, as "chat.messages.role"
  std::string value;   // for people
  bool empty = false;  // the field is a message, and there is nothing in it
  v1::GenerateRequest request;
};

// Whatever a field needs beside it, or inside the message that holds it, to be
// legal; called before it is set, with its path.
using PrepareRequest =
    std::function<void(const std::string& path, v1::GenerateRequest& request)>;

// Calls `visit` with each value of each field of GenerateRequest, at all
// depths. Fields are found through the descriptor: one that is added to the
// message is visited, too. Starts from `base` each time.
void ForEachVariant(const v1::GenerateRequest& base,
                    const PrepareRequest& prepare,
                    const std::function<void(const RequestVariant&)>& visit);

// Gives a field that means nothing alone what it is about: a log-probability's
// id the wish for log-probabilities, a message the conversation that it is in.
void PrepareVariant(const std::string& path, v1::GenerateRequest& request);

// Whether the field at `path`, or a message that holds it, is understood and
// refused in at least one of its values: what this server does not have yet.
// Whatever else is UNIMPLEMENTED was forgotten.
bool IsNotThereYet(const std::string& path);

}  // namespace kvasir

#endif  // KVASIR_TESTS_SERVER_REQUEST_VARIANTS_H_
