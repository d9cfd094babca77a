// The options of generate and chat: that each sets what its name says, and
// nothing else.

#include "server/cli/generation_options.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace kvasir::cli {
namespace {

using google::protobuf::util::MessageDifferencer;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Case {
  std::vector<std::string> arguments;
  std::string request;  // in protobuf's text format
};

// One for each option; those without a field of the request are
// StreamIsTheCallersToSet's.
const std::vector<Case>& Cases() {
  static const auto* const cases = new std::vector<Case>{
      {{"--model", "m"}, "model: 'm'"},
      {{"--request-id", "r"}, "request_id: 'r'"},
      {{"--priority", "-3"}, "priority: -3"},
      {{"--max-time", "1m30s"}, "max_time { seconds: 90 }"},
      {{"--label", "a=b", "--label", "c=d=e"},
       "labels { key: 'a' value: 'b' } labels { key: 'c' value: 'd=e' }"},
      {{"--truncate-prompt-tokens", "-1"},
       "output { truncate_prompt_tokens: -1 }"},
      {{"--truncate-side", "right"},
       "output { truncate_side: TRUNCATE_SIDE_RIGHT }"},
      {{"--temp", "0"}, "sampling { temperature: 0 }"},
      {{"--temperature", "1.5"}, "sampling { temperature: 1.5 }"},
      {{"--top-k", "40"}, "sampling { top_k: 40 }"},
      {{"--typical-p", "0.25"}, "sampling { typical_p: 0.25 }"},
      {{"--top-p", "0.5"}, "sampling { top_p: 0.5 }"},
      {{"--min-p", "0.125"}, "sampling { min_p: 0.125 }"},
      {{"--seed", "18446744073709551615"},
       "sampling { seed: 18446744073709551615 }"},
      {{"--frequency-penalty", "-0.5"}, "sampling { frequency_penalty: -0.5 }"},
      {{"--presence-penalty", "0"}, "sampling { presence_penalty: 0 }"},
      {{"--repetition-penalty", "1.5"}, "sampling { repetition_penalty: 1.5 }"},
      {{"--penalty-window", "64"}, "sampling { penalty_window: 64 }"},
      {{"--logit-bias", "5=-100", "--logit-bias", "6=1"},
       "sampling { logit_bias { key: 5 value: -100 } "
       "logit_bias { key: 6 value: 1 } }"},
      {{"--allowed-token-ids", "[1,2]", "--allowed-token-ids", "3"},
       "sampling { allowed_token_ids: [1, 2, 3] }"},
      {{"--banned-token-ids", "1 2"}, "sampling { banned_token_ids: [1, 2] }"},
      {{"--n", "3"}, "sampling { n: 3 }"},
      {{"--max-tokens", "9"}, "stopping { max_tokens: 9 }"},
      {{"--min-tokens", "0"}, "stopping { min_tokens: 0 }"},
      {{"--stop", "{}", "--stop", "[a,b]", "--stop", "-x"},
       "stopping { strings: ['{}', '[a,b]', '-x'] }"},
      {{"--stop-token-ids", "7,8"}, "stopping { token_ids: [7, 8] }"},
      {{"--include-stop"}, "stopping { include_stop: true }"},
      {{"--ignore-eos"}, "stopping { ignore_eos: true }"},
      {{"--logprobs", "0"}, "output { logprobs: 0 }"},
      {{"--logprob-token-ids", "1,2"}, "output { logprob_token_ids: [1, 2] }"},
      {{"--prompt-logprobs", "2"}, "output { prompt_logprobs: 2 }"},
      {{"--prompt-logprob-start", "0"}, "output { prompt_logprob_start: 0 }"},
      {{"--special"}, "output { skip_special_tokens: false }"},
      {{"--stream-interval", "4"}, "output { stream_interval: 4 }"},
      {{"--progress"}, "output { progress: true }"},
      {{"--echo"}, "output { echo: true }"},
      {{"--return-token-ids"}, "output { return_token_ids: true }"},
      {{"--no-text"}, "output { return_text: false }"},
      {{"--usage-every-chunk"}, "output { usage_every_chunk: true }"},
      {{"--cache-mode", "read-only"}, "cache { mode: CACHE_MODE_READ_ONLY }"},
      {{"--no-cache"}, "cache { mode: CACHE_MODE_BYPASS }"},
      {{"--store-completion"}, "cache { store_completion: true }"},
      {{"--no-store-completion"}, "cache { store_completion: false }"},
      {{"--salt", "s"}, "cache { salt: 's' }"},
      {{"--cache-salt", "s"}, "cache { salt: 's' }"},
      {{"--retention", "high"}, "cache { retention: RETENTION_HIGH }"},
      {{"--cache-priority", "0"}, "cache { priority: 0 }"},
      {{"--cache-ttl", "1h"}, "cache { ttl { seconds: 3600 } }"},
      {{"--cache-version", "v"}, "cache { version: 'v' }"},
  };
  return *cases;
}

// The command line's word on `arguments`: empty, or what is wrong.
std::string Parse(CLI::App& app, std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return "";
}

// Sub-messages that are there, but empty, say nothing.
void DropEmpty(v1::GenerateRequest& request) {
  if (request.sampling().ByteSizeLong() == 0) request.clear_sampling();
  if (request.stopping().ByteSizeLong() == 0) request.clear_stopping();
  if (request.cache().ByteSizeLong() == 0) request.clear_cache();
}

TEST(GenerationOptionsTest, EachSetsItsFieldAndNoOther) {
  for (const Case& one : Cases()) {
    CLI::App app;
    GenerationOptions options;
    options.AddTo(app);
    ASSERT_THAT(Parse(app, one.arguments), IsEmpty()) << one.arguments[0];
    v1::GenerateRequest wanted;
    wanted.mutable_output()->set_timings(true);
    ASSERT_TRUE(
        google::protobuf::TextFormat::MergeFromString(one.request, &wanted))
        << one.request;
    v1::GenerateRequest found = options.request();
    DropEmpty(found);
    EXPECT_TRUE(MessageDifferencer::Equals(found, wanted))
        << one.arguments[0] << ": " << found.ShortDebugString();
  }
}

// An option that is added without a case above could be read and forgotten.
TEST(GenerationOptionsTest, EveryOptionHasACase) {
  std::set<std::string> known = {"--help", "--stream", "--no-stream"};
  for (const Case& one : Cases()) known.insert(one.arguments[0]);
  CLI::App app;
  GenerationOptions options;
  options.AddTo(app);
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      EXPECT_EQ(known.count("--" + name), 1u) << name;
    }
  }
}

// Every field that the server honours can be set; what has no option is
// another's to set, or refused by the server anyway.
TEST(GenerationOptionsTest, EveryFieldHasAnOption) {
  const std::set<std::string> without = {
      "sampling",
      "stopping",
      "output",
      "cache",  // set inside
      "text",
      "token_ids",
      "chat",
      "stream",  // the command's
      "constraint",
      "adapter",
      "extensions",  // refused, as are those below
      "stopping.regexes",
      "cache.key",
      "cache.session_id",
      "cache.breakpoints",
      "cache.min_tier",
      "cache.max_load_time",
      "output.timings",  // always set
  };
  std::set<std::string> set;
  for (const Case& one : Cases()) {
    const size_t brace = one.request.find(" { ");
    const size_t colon = one.request.find(':');
    const std::string outer = one.request.substr(0, std::min(brace, colon));
    set.insert(outer);
    if (brace == std::string::npos) continue;
    const std::string inner = one.request.substr(brace + 3);
    set.insert(outer + "." + inner.substr(0, inner.find_first_of(": ")));
  }
  const auto check = [&](const google::protobuf::Descriptor& type,
                         const std::string& before) {
    for (int i = 0; i < type.field_count(); ++i) {
      const std::string path = before + type.field(i)->name();
      EXPECT_EQ(set.count(path) + without.count(path) > 0, true) << path;
    }
  };
  check(*v1::GenerateRequest::descriptor(), "");
  check(*v1::SamplingParams::descriptor(), "sampling.");
  check(*v1::StoppingParams::descriptor(), "stopping.");
  check(*v1::OutputOptions::descriptor(), "output.");
  check(*v1::CacheOptions::descriptor(), "cache.");
}

TEST(GenerationOptionsTest, StreamIsTheCallersToSet) {
  const auto stream = [](const std::vector<std::string>& arguments) {
    CLI::App app;
    GenerationOptions options;
    options.AddTo(app);
    EXPECT_THAT(Parse(app, arguments), IsEmpty());
    EXPECT_FALSE(options.request().stream());
    return options.stream();
  };
  EXPECT_EQ(stream({}), std::nullopt);
  EXPECT_EQ(stream({"--stream"}), true);
  EXPECT_EQ(stream({"--no-stream"}), false);
}

TEST(GenerationOptionsTest, FaultsNameTheOption) {
  const auto fault = [](const std::vector<std::string>& arguments) {
    CLI::App app;
    GenerationOptions options;
    options.AddTo(app);
    return Parse(app, arguments);
  };
  EXPECT_EQ(fault({"--top-k", "many"}),
            "--top-k: wanted a whole number of 32 bits, found \"many\"");
  EXPECT_EQ(fault({"--cache-mode", "none"}),
            "--cache-mode: wanted read-write or read-only or bypass, found "
            "\"none\"");
  EXPECT_EQ(fault({"--allowed-token-ids", ""}),
            "--allowed-token-ids: wanted token ids, found \"\"");
  EXPECT_THAT(fault({"--temp", "1", "--temp", "2"}), HasSubstr("--temp"));
  EXPECT_THAT(fault({"--stream", "--no-stream"}), HasSubstr("--no-stream"));
  EXPECT_THAT(fault({"--no-cache", "--cache-mode", "bypass"}),
              HasSubstr("--cache-mode"));
  EXPECT_THAT(fault({"--stop"}), HasSubstr("--stop"));
  // One value each: the second is no value of --stop.
  EXPECT_THAT(fault({"--stop", "a", "b"}), HasSubstr("b"));
}

// An answer of several sequences, or of the prompt, is no turn of a chat.
TEST(GenerationOptionsTest, AChatHasNoneThatSpoilItsTurns) {
  for (const char* flag : {"--echo", "--no-text", "--special", "--no-stream"}) {
    CLI::App app;
    GenerationOptions options;
    options.AddToChat(app);
    EXPECT_THAT(Parse(app, {flag}), HasSubstr(flag));
  }
  CLI::App app;
  GenerationOptions options;
  options.AddToChat(app);
  EXPECT_THAT(Parse(app, {"--n", "2"}), HasSubstr("--n"));
  EXPECT_THAT(Parse(app, {"--truncate-prompt-tokens", "-1", "--temp", "0"}),
              IsEmpty());
}

}  // namespace
}  // namespace kvasir::cli
