#ifndef KVASIR_SERVER_REQUEST_LOG_H_
#define KVASIR_SERVER_REQUEST_LOG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "engine/token_sink.h"
#include "kvasir/v1/inference.pb.h"
#include "server/log.h"

namespace kvasir {

// Most bytes of a prompt that are logged, of those requests whose prompts are.
inline constexpr size_t kMaxLoggedPromptBytes = 512;

// What the log says of one Generate call when it has ended: one line, whatever
// became of it. Filled in as the call goes on. Nothing of the prompt or the
// output is in it, unless the operator has asked for samples of prompts.
//
// One thread at a time. Times are steady.
struct RequestRecord {
  explicit RequestRecord(absl::Duration now) : begin(now) {}

  absl::Duration begin;  // the call arrived

  // Of the call; empty where it came to no such thing.
  std::string request_id;
  std::string tenant;
  std::string model;
  std::string version;
  std::string trace_id;
  std::string peer;  // logged at debug only: it is an address of a person's
  std::vector<std::pair<std::string, std::string>> labels;
  std::string prompt;  // its beginning, if this is a sample

  // Of its progress; see the functions.
  absl::Duration submitted = absl::InfiniteDuration();
  absl::Duration accepted = absl::InfiniteDuration();
  absl::Duration first_token = absl::InfiniteDuration();
  int64_t prompt_tokens = -1;  // not counted yet
  int64_t cached_tokens = 0;
  int64_t completion_tokens = 0;
  std::string finish_reasons;  // of all its sequences, commas between them

  // The engine has it from `now` on.
  void NoteSubmitted(int64_t prompt_token_count, absl::Duration now);
  // What the engine says, and what the client is told of an end.
  void Note(const TokenEvent& event, absl::Duration now);
  void Note(const v1::GenerateResponse& message);
};

// The line's fields, in order; they point into `record`, but for their values.
// `keys` holds what keys are made of.
std::vector<LogField> FieldsOf(const RequestRecord& record,
                               const absl::Status& status, absl::Duration now,
                               std::vector<std::string>& keys);

// Writes the line: a warning for INTERNAL, which is our own fault, else for
// information. Any thread.
void LogRequest(const RequestRecord& record, const absl::Status& status,
                absl::Duration now);

// Whether a request's prompt is one of the samples: `ratio` of all are, 0 to 1,
// always the same ones by their id, on every server.
bool SamplesPrompt(std::string_view request_id, double ratio);

// The beginning of a text prompt, or of a conversation's, as it is logged;
// whole characters. Empty for token ids.
std::string LoggedPrompt(const v1::GenerateRequest& request);

}  // namespace kvasir

#endif  // KVASIR_SERVER_REQUEST_LOG_H_
