#include "server/request_log.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

#include "server/status_reason.h"
#include "server/text.h"

namespace kvasir {
namespace {

std::string Seconds(absl::Duration span) {
  return absl::StrFormat("%.6f", absl::ToDoubleSeconds(span));
}

// FNV-1a, so that all servers agree, and a finisher that spreads its bits: ids
// that count up differ in the lowest ones only.
uint64_t HashOf(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccd;
  hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53;
  return hash ^ (hash >> 33);
}

}  // namespace

void RequestRecord::NoteSubmitted(int64_t prompt_token_count,
                                  absl::Duration now) {
  prompt_tokens = prompt_token_count;
  submitted = now;
}

void RequestRecord::Note(const TokenEvent& event, absl::Duration now) {
  if (const auto* start = std::get_if<AcceptedEvent>(&event)) {
    accepted = now;
    cached_tokens = start->cached_tokens;
  } else if (const auto* delta = std::get_if<DeltaEvent>(&event)) {
    first_token = std::min(first_token, now);
    completion_tokens += static_cast<int64_t>(delta->token_ids.size());
  }
}

void RequestRecord::Note(const v1::GenerateResponse& message) {
  if (!message.has_finished()) return;
  const std::string name = v1::FinishReason_Name(message.finished().reason());
  absl::string_view word = name;
  absl::ConsumePrefix(&word, "FINISH_REASON_");
  absl::StrAppend(&finish_reasons, finish_reasons.empty() ? "" : ",",
                  absl::AsciiStrToLower(word));
}

std::vector<LogField> FieldsOf(const RequestRecord& record,
                               const absl::Status& status, absl::Duration now,
                               std::vector<std::string>& keys) {
  std::vector<LogField> fields;
  const auto add = [&fields](std::string_view key, std::string value) {
    if (!value.empty()) fields.emplace_back(key, std::move(value));
  };
  const auto span = [&](std::string_view key, absl::Duration to) {
    const bool known = record.submitted != absl::InfiniteDuration() &&
                       to != absl::InfiniteDuration();
    if (known) add(key, Seconds(to - record.submitted));
  };
  add("id", record.request_id);
  add("tenant", record.tenant);
  add("model", record.model);
  add("version", record.version);
  add("trace", record.trace_id);
  keys.clear();
  keys.reserve(record.labels.size());
  for (const auto& [key, value] : record.labels) {
    keys.push_back(absl::StrCat("label.", key));
    fields.emplace_back(keys.back(), value);
  }
  if (record.prompt_tokens >= 0) {
    add("prompt_tokens", absl::StrCat(record.prompt_tokens));
    add("cached_tokens", absl::StrCat(record.cached_tokens));
    add("completion_tokens", absl::StrCat(record.completion_tokens));
  }
  if (status.ok()) {
    add("finish", record.finish_reasons);
  } else {
    add("code", CodeName(static_cast<int>(status.code())));
    add("reason", ReasonOf(status));
  }
  if (absl::IsInternal(status)) add("error", std::string(status.message()));
  span("queue_seconds", record.accepted);
  span("first_token_seconds", record.first_token);
  add("total_seconds", Seconds(now - record.begin));
  if (LogEnabled(LogLevel::kDebug)) add("peer", record.peer);
  add("prompt", record.prompt);
  return fields;
}

void LogRequest(const RequestRecord& record, const absl::Status& status,
                absl::Duration now) {
  const LogLevel level =
      absl::IsInternal(status) ? LogLevel::kWarning : LogLevel::kInfo;
  if (!LogEnabled(level)) return;
  std::vector<std::string> keys;
  Log(level, "request ended", FieldsOf(record, status, now, keys));
}

bool SamplesPrompt(std::string_view request_id, double ratio) {
  return std::ldexp(static_cast<double>(HashOf(request_id) >> 11), -53) < ratio;
}

std::string LoggedPrompt(const v1::GenerateRequest& request) {
  std::string text = request.text().substr(0, kMaxLoggedPromptBytes + 1);
  for (const v1::ChatMessage& message : request.chat().messages()) {
    if (text.size() > kMaxLoggedPromptBytes) break;
    absl::StrAppend(&text, text.empty() ? "" : "\n", message.role(), ": ",
                    message.content().substr(0, kMaxLoggedPromptBytes + 1));
  }
  size_t end = std::min(text.size(), kMaxLoggedPromptBytes);
  while (end > 0 && end < text.size() && (text[end] & 0xC0) == 0x80) --end;
  text.resize(end);
  return text;
}

}  // namespace kvasir
