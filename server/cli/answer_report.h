#ifndef KVASIR_SERVER_CLI_ANSWER_REPORT_H_
#define KVASIR_SERVER_CLI_ANSWER_REPORT_H_

#include <cstdint>
#include <string>

#include "kvasir/v1/inference.pb.h"
#include "server/cli/generation.h"

namespace kvasir::cli {

// Answers as people read them. All pure.

// "eos", "length", ... as in the enum, lower case.
std::string ReasonName(v1::FinishReason reason);

// One line on a call of one sequence: tokens, cached tokens, times, why it
// ended.
std::string DescribeGeneration(const v1::Finished& finished);

// The same in two parts for several: what they share, and each one's own.
std::string DescribeCall(const Generation& generation);
std::string DescribeSequence(const v1::Finished& finished);

// "512 of 2,048 prompt tokens after 120 ms".
std::string DescribeProgress(const v1::PrefillProgress& progress);

// A table with a line for each token, and below it one for each other candidate
// in its place. Places are counted from `first` under the header `place`.
std::string RenderLogprobs(
    const google::protobuf::RepeatedPtrField<v1::PositionLogprobs>& places,
    const std::string& place, int64_t first, bool bold);

// What of an answer is shown besides its text, each part after an empty line:
// its token ids, log-probabilities of prompt and output. Empty if nothing of it
// was asked for. Without text the ids stand alone, for another program to read.
std::string RenderDetails(const v1::GenerateRequest& request,
                          const v1::Finished& finished, bool bold);

// One of several sequences under a heading with its number, from 1, as
// "[1]\ntext\n" and details. One without an end says so.
std::string RenderSequence(const v1::GenerateRequest& request,
                           const v1::Finished& finished, bool bold);

}  // namespace kvasir::cli

#endif  // KVASIR_SERVER_CLI_ANSWER_REPORT_H_
