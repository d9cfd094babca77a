#include "server/cli/answer_report.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "server/cli/format.h"

namespace kvasir::cli {
namespace {

// What the call did with its prompt.
std::string DescribePrompt(const v1::Finished& finished) {
  const v1::Usage& usage = finished.usage();
  std::string line =
      absl::StrCat(Plural(usage.prompt_tokens(), "prompt token"), " (",
                   FormatCount(usage.cached_tokens()), " cached");
  if (finished.truncated_tokens() > 0) {
    absl::StrAppend(&line, ", ", FormatCount(finished.truncated_tokens()),
                    " more cut off");
  }
  absl::StrAppend(&line, "), first token after ",
                  FormatSpan(FromProto(finished.timings().first_token())));
  return line;
}

std::vector<std::string> CandidateCells(const std::string& place,
                                        const v1::Logprob& candidate) {
  return {place, absl::StrCat(candidate.token_id()),
          absl::StrFormat("%.4f", candidate.logprob()),
          absl::StrCat(candidate.rank()),
          absl::StrCat("\"", Visible(candidate.text()), "\"")};
}

void AddPlace(Table& table, const std::string& place,
              const v1::PositionLogprobs& at) {
  if (at.has_chosen()) {
    table.AddRow(CandidateCells(place, at.chosen()));
  } else {
    table.AddRow({place, "-", "-", "-", ""});
  }
  for (const v1::Logprob& candidate : at.top()) {
    if (at.has_chosen() && candidate.token_id() == at.chosen().token_id()) {
      continue;
    }
    table.AddRow(CandidateCells("", candidate));
  }
}

bool WantsText(const v1::GenerateRequest& request) {
  return !request.output().has_return_text() || request.output().return_text();
}

}  // namespace

std::string ReasonName(v1::FinishReason reason) {
  std::string name = v1::FinishReason_Name(reason);
  absl::string_view view = name;
  absl::ConsumePrefix(&view, "FINISH_REASON_");
  return absl::AsciiStrToLower(view);
}

std::string DescribeSequence(const v1::Finished& finished) {
  const double rate = finished.timings().decode_tokens_per_second();
  std::string line = Plural(finished.usage().completion_tokens(), "token");
  if (rate > 0) {
    absl::StrAppend(&line, " at ", FormatRate(rate), " tokens/s");
  }
  absl::StrAppend(&line, "; ended by ", ReasonName(finished.reason()));
  if (finished.has_matched_text()) {
    absl::StrAppend(&line, " \"", Visible(finished.matched_text()), "\"");
  } else if (finished.has_matched_token_id()) {
    absl::StrAppend(&line, " ", finished.matched_token_id());
  }
  if (finished.preemption_count() > 0) {
    absl::StrAppend(&line, "; ",
                    Plural(finished.preemption_count(), "preemption"));
  }
  return line;
}

std::string DescribeGeneration(const v1::Finished& finished) {
  return absl::StrCat(DescribePrompt(finished), "; ",
                      DescribeSequence(finished));
}

std::string DescribeCall(const Generation& generation) {
  int64_t tokens = 0;
  for (const auto& [index, sequence] : generation.sequences) {
    tokens += sequence.usage().completion_tokens();
  }
  return absl::StrCat(
      DescribePrompt(generation.first()), "; ", Plural(tokens, "token"), " in ",
      Plural(static_cast<int64_t>(generation.sequences.size()), "sequence"));
}

std::string DescribeProgress(const v1::PrefillProgress& progress) {
  return absl::StrCat(FormatCount(progress.done_tokens()), " of ",
                      Plural(progress.total_tokens(), "prompt token"),
                      " after ", FormatSpan(FromProto(progress.elapsed())));
}

std::string RenderLogprobs(
    const google::protobuf::RepeatedPtrField<v1::PositionLogprobs>& places,
    const std::string& place, int64_t first, bool bold) {
  Table table({{place, true},
               {"ID", true},
               {"LOGPROB", true},
               {"RANK", true},
               {"TEXT"}});
  for (int i = 0; i < places.size(); ++i) {
    AddPlace(table, absl::StrCat(first + i), places[i]);
  }
  return table.Render(bold);
}

std::string RenderDetails(const v1::GenerateRequest& request,
                          const v1::Finished& finished, bool bold) {
  std::string text;
  if (!WantsText(request)) {
    text = absl::StrJoin(finished.token_ids(), " ") + "\n";
  } else if (request.output().return_token_ids()) {
    text =
        absl::StrCat("\nids ", absl::StrJoin(finished.token_ids(), " "), "\n");
  }
  if (finished.prompt_logprobs_size() > 0) {
    absl::StrAppend(
        &text, "\n",
        RenderLogprobs(finished.prompt_logprobs(), "PROMPT",
                       request.output().prompt_logprob_start(), bold));
  }
  if (finished.logprobs_size() > 0) {
    absl::StrAppend(&text, "\n",
                    RenderLogprobs(finished.logprobs(), "OUTPUT", 0, bold));
  }
  return text;
}

std::string RenderSequence(const v1::GenerateRequest& request,
                           const v1::Finished& finished, bool bold) {
  const bool ended = finished.reason() != v1::FINISH_REASON_UNSPECIFIED;
  std::string block =
      absl::StrCat(bold ? "\033[1m" : "", "[", finished.index() + 1, "]",
                   ended ? "" : " (unfinished)", bold ? "\033[0m" : "", "\n");
  if (WantsText(request)) {
    block += finished.text();
    if (finished.text().empty() || finished.text().back() != '\n') {
      block += '\n';
    }
  }
  return block + RenderDetails(request, finished, bold);
}

}  // namespace kvasir::cli
