// kvasir generate and chat against a live server with the model TINY.

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"

#include "engine/engine.h"
#include "server/cli/commands.h"
#include "server/generation_backend.h"
#include "tests/server/live_server.h"
#include "tests/support/temp_path.h"
#include "tests/support/tiny_model.h"

namespace kvasir::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int kInvalid =
    kExitStatusBase + static_cast<int>(grpc::StatusCode::INVALID_ARGUMENT);

class GenerateCommandTest : public testing::Test {
 protected:
  GenerateCommandTest() {
    EngineOptions options;
    options.model_name = "tiny";
    options.context_limit = 256;
    options.cache_blocks = 400;
    options.thread_count = 1;
    options.model_path = TempPath("generate_command_tiny.gguf");
    const absl::Status written = WriteTinyModel({}, options.model_path);
    EXPECT_TRUE(written.ok()) << written;
    absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Start(options);
    if (!engine.ok()) ADD_FAILURE() << engine.status();
    live_.server().Serve(MakeEngineBackend(*std::move(engine)));
  }

  struct Outcome {
    int code;
    std::string out;
    std::string err;
  };

  Outcome Run(const std::vector<std::string>& words) {
    std::vector<std::string> arguments = {
        "--addr", live_.server().grpc_address().ToString()};
    arguments.insert(arguments.end(), words.begin(), words.end());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Outcome outcome;
    outcome.code = RunCli(arguments);
    outcome.out = testing::internal::GetCapturedStdout();
    // The server in this process writes its log there, too.
    const std::string err = testing::internal::GetCapturedStderr();
    for (const absl::string_view line :
         absl::StrSplit(err, '\n', absl::SkipEmpty())) {
      if (absl::StrContains(line, " info request ended ")) continue;
      outcome.err += std::string(line) + "\n";
    }
    return outcome;
  }

  // A generation that is the same each time.
  Outcome Generate(const std::vector<std::string>& words) {
    std::vector<std::string> all = {"generate", "-p",          "The harbour",
                                    "--seed",   "7",           "--max-tokens",
                                    "8",        "--ignore-eos"};
    all.insert(all.end(), words.begin(), words.end());
    return Run(all);
  }

  // A chat whose lines are `lines`.
  Outcome Chat(const std::string& lines,
               const std::vector<std::string>& words = {}) {
    std::istringstream in(lines);
    std::streambuf* const before = std::cin.rdbuf(in.rdbuf());
    std::vector<std::string> all = {"chat", "--seed", "7", "--max-tokens", "4"};
    all.insert(all.end(), words.begin(), words.end());
    const Outcome outcome = Run(all);
    std::cin.rdbuf(before);
    std::cin.clear();
    return outcome;
  }

  // The path of a file that holds `text`.
  static std::string File(const std::string& text) {
    const std::string path = TempPath("generate_command.json");
    std::ofstream(path) << text;
    return path;
  }

  static v1::GenerateResponse FromJson(const std::string& text) {
    v1::GenerateResponse response;
    const auto read =
        google::protobuf::util::JsonStringToMessage(text, &response);
    EXPECT_TRUE(read.ok()) << read.ToString() << "\n" << text;
    return response;
  }

  static std::vector<v1::GenerateResponse> FromLines(const std::string& text) {
    std::vector<v1::GenerateResponse> responses;
    for (const auto line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      responses.push_back(FromJson(std::string(line)));
    }
    return responses;
  }

  LiveServer live_;
};

// Not within the words of the user, who has just asked.
TEST_F(GenerateCommandTest, GoesOnWithinTheMessagesOfTheFileAlone) {
  const std::string messages = File(R"([{"role": "user", "content": "Hi"}])");
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{
           {"generate", "--messages", messages, "--continue-final-message",
            "-p", "x"},
           {"generate", "--chat", "--continue-final-message", "-p", "x"}}) {
    const Outcome outcome = Run(words);
    EXPECT_EQ(outcome.code, kExitUsage);
    EXPECT_THAT(outcome.err, StartsWith("kvasir: --continue-final-message: "));
  }
}

TEST_F(GenerateCommandTest, TheSameTextWithAndWithoutAStream) {
  const Outcome streamed = Generate({});
  EXPECT_EQ(streamed.code, kExitOk);
  EXPECT_THAT(streamed.err,
              AllOf(HasSubstr("8 tokens"), HasSubstr("ended by length")));
  EXPECT_EQ(Generate({"--no-stream"}).out, streamed.out);
  EXPECT_EQ(Generate({"--stream-interval", "3"}).out, streamed.out);
  EXPECT_THAT(Generate({"--echo"}).out, StartsWith("The harbour"));
}

// Tokens of several sequences come mixed; read so, they would be no text.
TEST_F(GenerateCommandTest, SequencesAreNotMixed) {
  const Outcome outcome = Generate({"--n", "3", "-o", "json"});
  ASSERT_EQ(outcome.code, kExitOk) << outcome.err;
  std::string wanted;
  const auto sequences = FromLines(outcome.out);
  ASSERT_EQ(sequences.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(sequences[i].finished().index(), i);
    EXPECT_EQ(sequences[i].finished().seed(), 7u + i);
    EXPECT_NE(sequences[i].finished().text(), "");
  }
  const Outcome shown = Generate({"--n", "3", "-v"});
  EXPECT_EQ(shown.code, kExitOk);
  for (const auto& sequence : sequences) {
    EXPECT_THAT(
        shown.out,
        HasSubstr("[" + std::to_string(sequence.finished().index() + 1) +
                  "]\n" + sequence.finished().text()));
  }
  EXPECT_THAT(shown.err, AllOf(HasSubstr("[3] 8 tokens"), HasSubstr("seed 9"),
                               HasSubstr("24 tokens in 3 sequences")));
}

TEST_F(GenerateCommandTest, JsonIsWhatTheCallReturned) {
  const Outcome whole = Generate({"-o", "json", "--return-token-ids"});
  ASSERT_EQ(whole.code, kExitOk) << whole.err;
  const v1::GenerateResponse response = FromJson(whole.out);
  EXPECT_EQ(response.finished().token_ids_size(), 8);
  EXPECT_TRUE(response.finished().has_timings());

  const Outcome streamed =
      Generate({"-o", "json", "--stream", "--usage-every-chunk", "--progress"});
  ASSERT_EQ(streamed.code, kExitOk) << streamed.err;
  const auto events = FromLines(streamed.out);
  std::string text;
  int deltas = 0;
  for (const auto& event : events) {
    if (!event.has_delta()) continue;
    text += event.delta().text();
    EXPECT_EQ(event.delta().usage().completion_tokens(), ++deltas);
  }
  EXPECT_EQ(deltas, 8);
  EXPECT_EQ(text, response.finished().text());
  EXPECT_TRUE(events.front().has_accepted());
  EXPECT_TRUE(events.back().has_finished());
}

// A flag that needs another one is no flag that is ignored without it.
TEST_F(GenerateCommandTest, UsageInEveryChunkNeedsChunksThatAreShown) {
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"--usage-every-chunk"},
           {"--usage-every-chunk", "-o", "json"},
           {"--usage-every-chunk", "-o", "json", "--no-stream"}}) {
    const Outcome outcome = Generate(words);
    EXPECT_EQ(outcome.code, kExitUsage);
    EXPECT_EQ(outcome.err,
              "kvasir: --usage-every-chunk: wanted -o json --stream beside "
              "it\n");
  }
}

TEST_F(GenerateCommandTest, ShowsIdsAndLogprobs) {
  const Outcome ids = Generate({"--no-text"});
  EXPECT_EQ(absl::StrSplit(ids.out, ' ').begin()->find('\n'),
            std::string::npos);
  const std::string list = ids.out.substr(0, ids.out.size() - 1);
  EXPECT_EQ(std::count(list.begin(), list.end(), ' '), 7) << ids.out;
  const Outcome all = Generate(
      {"--return-token-ids", "--logprobs", "1", "--prompt-logprobs", "0"});
  EXPECT_THAT(all.out, HasSubstr("\n\nids " + list + "\n\nPROMPT"));
  EXPECT_THAT(all.out, HasSubstr("\n\nOUTPUT"));
  EXPECT_THAT(all.out, HasSubstr("\n     7  ")) << "the last of 8 places";
}

TEST_F(GenerateCommandTest, IdsAreAPromptToo) {
  const Outcome once = Run({"generate", "--prompt-token-ids", "[87, 107, 104]",
                            "--max-tokens", "2", "--echo", "--no-text", "-q"});
  EXPECT_EQ(once.code, kExitOk) << once.err;
  EXPECT_THAT(once.out, StartsWith("87 107 104 "));
  EXPECT_EQ(once.err, "");
  const Outcome chat =
      Run({"generate", "--prompt-token-ids", "87", "--chat", "-q"});
  EXPECT_EQ(chat.code, kExitUsage);
  EXPECT_THAT(chat.err, HasSubstr("--prompt-token-ids: wanted no chat"));
}

// Two judges of one rule would come to differ.
TEST_F(GenerateCommandTest, TheServersRefusalIsShownOnOneLine) {
  for (const auto& [words, fault] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--temp", "-1"}, "sampling.temperature: "},
           {{"--n", "65"}, "sampling.n: "},
           {{"--logprobs", "21"}, "output.logprobs: "},
           {{"--min-tokens", "9"}, "stopping.min_tokens: "},
           {{"--max-time", "0"}, "max_time: "},
           {{"--truncate-side", "right"}, "output.truncate_side: "},
           {{"--progress", "--no-stream"}, "output.progress: "},
           {{"--logit-bias", "999999=1"}, "sampling.logit_bias: "}}) {
    const Outcome outcome = Generate(words);
    EXPECT_EQ(outcome.code, kInvalid) << words[0];
    EXPECT_THAT(outcome.err, StartsWith("kvasir: INVALID_ARGUMENT: " + fault));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1)
        << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
}

TEST_F(GenerateCommandTest, FaultyFilesAreNamed) {
  const std::string path = File("[{\"role\": \"user\"}, 7]");
  const Outcome messages = Run({"generate", "--messages", path});
  EXPECT_EQ(messages.code, kExitUsage);
  EXPECT_EQ(messages.err,
            "kvasir: " + path + "[1]: wanted an object, found number\n");
  const Outcome tools = Run({"generate", "-p", "x", "--tools", File("{")});
  EXPECT_EQ(tools.code, kExitUsage);
  EXPECT_EQ(tools.err,
            "kvasir: " + path + ": wanted JSON, found a fault at byte 2\n");
}

TEST_F(GenerateCommandTest, GoesOnWithAMessage) {
  const std::string path = File(R"([{"role": "user", "content": "Who?"},
               {"role": "assistant", "content": "It was"}])");
  const std::vector<std::string> words = {
      "generate",     "--messages", path,     "--echo", "--special",
      "--max-tokens", "1",          "--seed", "7",      "-q"};
  std::vector<std::string> open = words;
  open.push_back("--continue-final-message");
  EXPECT_THAT(Run(words).out,
              HasSubstr("It was<|im_end|>\n<|im_start|>assistant\n"));
  EXPECT_THAT(Run(open).out, AllOf(HasSubstr("<|im_start|>assistant\nIt was"),
                                   Not(HasSubstr("It was<|im_end|>"))));
  open.push_back("--add-generation-prompt");
  EXPECT_EQ(Run(open).code, kInvalid) << "the server's to refuse";
}

// What a script asks, line by line, it can read so.
TEST_F(GenerateCommandTest, AChatInJsonHasALineForEachAnswer) {
  const Outcome outcome = Chat("one\ntwo\n/clear\none\n", {"-o", "json"});
  ASSERT_EQ(outcome.code, kExitOk) << outcome.err;
  const auto answers = FromLines(outcome.out);
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_GT(answers[1].finished().usage().prompt_tokens(),
            answers[0].finished().usage().prompt_tokens());
  EXPECT_EQ(answers[2].finished().usage().prompt_tokens(),
            answers[0].finished().usage().prompt_tokens());
  EXPECT_EQ(answers[2].finished().text(), answers[0].finished().text());
}

// /clear forgets what was said, not what the chat began with.
TEST_F(GenerateCommandTest, AChatBeginsAnewWithItsFirstMessages) {
  const std::string path = File(R"([{"role": "user", "content": "Who?"},
               {"role": "assistant", "content": "It was me."}])");
  const Outcome outcome =
      Chat("one\n/clear\none\n",
           {"-o", "json", "--messages", path, "--system", "Be brief."});
  ASSERT_EQ(outcome.code, kExitOk) << outcome.err;
  const auto answers = FromLines(outcome.out);
  ASSERT_EQ(answers.size(), 2u);
  const int32_t tokens = answers[0].finished().usage().prompt_tokens();
  EXPECT_EQ(answers[1].finished().usage().prompt_tokens(), tokens);
  const auto alone = FromLines(Chat("one\n", {"-o", "json"}).out);
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_GT(tokens, alone[0].finished().usage().prompt_tokens());
}

TEST_F(GenerateCommandTest, AChatShowsLogprobsUnderItsAnswer) {
  const Outcome outcome = Chat("one\n", {"--logprobs", "0"});
  EXPECT_EQ(outcome.code, kExitOk);
  EXPECT_THAT(outcome.out, HasSubstr("\n\nOUTPUT"));
}

}  // namespace
}  // namespace kvasir::cli
