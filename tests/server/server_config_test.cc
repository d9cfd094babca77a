#include "server/server_config.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/config_file.h"
#include "tests/server/server_testing.h"
#include "tests/support/temp_path.h"

namespace kvasir {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ServerConfigTest : public testing::Test {
 protected:
  ServerConfigTest() {
    sources_.default_file = "";
    sources_.environment =
        [this](const std::string& name) -> std::optional<std::string> {
      const auto it = environment_.find(name);
      if (it == environment_.end()) return std::nullopt;
      return it->second;
    };
    sources_.memory_limit = [](const std::string& root) {
      return int64_t{root.empty() ? 1000 : 1} << 30;
    };
  }

  absl::StatusOr<ParsedConfig> Parse(std::vector<std::string> arguments) {
    sources_.arguments = std::move(arguments);
    return ParseConfig(sources_);
  }

  std::string Origin(const ParsedConfig& parsed, const std::string& key) {
    for (const ConfigValue& value : parsed.values) {
      if (value.key == key) return value.origin;
    }
    return "no such key";
  }

  void ExpectError(std::vector<std::string> arguments,
                   std::vector<std::string> parts) {
    const absl::Status status = Parse(std::move(arguments)).status();
    ASSERT_FALSE(status.ok());
    for (const std::string& part : parts) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(part));
    }
    EXPECT_EQ(
        std::count(status.message().begin(), status.message().end(), '\n'), 0)
        << "one line: " << status.message();
  }

  std::map<std::string, std::string> environment_;
  ConfigSources sources_;
};

TEST_F(ServerConfigTest, Defaults) {
  const absl::StatusOr<ParsedConfig> parsed = Parse({"--model", "m.gguf"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const ServerConfig& config = parsed->config;
  EXPECT_EQ(config.listen.ToString(), "127.0.0.1:8001");
  EXPECT_EQ(config.metrics_listen.ToString(), "127.0.0.1:8002");
  EXPECT_EQ(config.engine.model_path, "m.gguf");
  EXPECT_EQ(config.engine.model_name, "");
  EXPECT_EQ(config.engine.cache_bytes, 0) << "auto";
  EXPECT_EQ(config.sizing.share, 0);
  EXPECT_EQ(config.sizing.floor_bytes, 0);
  EXPECT_EQ(config.sizing.ceiling_bytes, 0);
  EXPECT_TRUE(config.sizing.auto_resize);
  EXPECT_EQ(config.max_message_bytes, 64 << 20);
  EXPECT_EQ(config.drain_timeout, absl::Seconds(30));
  EXPECT_EQ(config.stream_queue_limit, 1024);
  EXPECT_EQ(config.slow_reader_timeout, absl::Seconds(30));
  EXPECT_EQ(config.max_streams, 2048);
  EXPECT_TRUE(config.tenant_limits.empty());
  EXPECT_EQ(config.logged_prompt_ratio, 0);
  EXPECT_TRUE(config.engine.prefix_caching);
  // What the engine would use by itself is what is written in the table.
  const EngineOptions engine;
  EXPECT_EQ(config.engine.block_tokens, engine.block_tokens);
  EXPECT_EQ(config.engine.kv_type, engine.kv_type);
  EXPECT_EQ(config.engine.token_budget, engine.token_budget);
  EXPECT_EQ(config.engine.prefill_chunk, engine.prefill_chunk);
  EXPECT_EQ(config.engine.max_sequences, engine.max_sequences);
  EXPECT_EQ(config.engine.inbox_limit, engine.inbox_limit);
  EXPECT_EQ(config.engine.activations, engine.activations);
  EXPECT_EQ(config.engine.thread_count, engine.thread_count);
}

TEST_F(ServerConfigTest, TenantLimitsComeOneByOneOrAsAList) {
  auto parsed = Parse({"--model=m", "--tenant-limit=a=requests:1,tokens:2/min",
                       "--tenant-limit=*=requests:3", "--log-prompts=0.25"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_EQ(parsed->config.tenant_limits.size(), 2u);
  EXPECT_EQ(parsed->config.tenant_limits[0].tokens_per_minute, 2);
  EXPECT_EQ(parsed->config.tenant_limits[1].requests, 3);
  EXPECT_EQ(parsed->config.logged_prompt_ratio, 0.25);
  const std::string file =
      WriteTestFile("tenants.yaml",
                    "model: {path: m}\n"
                    "server:\n  tenant_limits:\n"
                    "    - a=requests:1\n    - b=tokens:5/min\n");
  parsed = Parse({"--config", file});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->config.tenant_limits.size(), 2u);
}

TEST_F(ServerConfigTest, FlagsOverEnvironmentOverFileOverDefaults) {
  const std::string file =
      WriteTestFile("order.yaml",
                    "model: {path: file.gguf}\n"
                    "cache:\n  size: 1GiB\n  block_tokens: 32\n"
                    "server:\n  listen: '[::1]:1'\n");
  environment_ = {{"KVASIR_CACHE_SIZE", "2GiB"},
                  {"KVASIR_SERVER_LISTEN", "127.0.0.1:2"}};
  const absl::StatusOr<ParsedConfig> parsed =
      Parse({"--config", file, "--listen=127.0.0.1:3"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->config.listen.port, 3);
  EXPECT_EQ(parsed->config.engine.cache_bytes, int64_t{2} << 30);
  EXPECT_EQ(parsed->config.engine.block_tokens, 32);
  EXPECT_EQ(parsed->config.engine.model_path, "file.gguf");
  EXPECT_EQ(Origin(*parsed, "server.listen"), "flag --listen");
  EXPECT_EQ(Origin(*parsed, "cache.size"), "environment KVASIR_CACHE_SIZE");
  EXPECT_EQ(Origin(*parsed, "cache.block_tokens"), "file " + file + ":4");
  EXPECT_EQ(Origin(*parsed, "engine.threads"), "default");
}

TEST_F(ServerConfigTest, FileFromTheEnvironmentOrItsUsualPlace) {
  environment_["KVASIR_CONFIG"] =
      WriteTestFile("env.yaml", "model: {path: a.gguf}\n");
  EXPECT_EQ(Parse({})->config.engine.model_path, "a.gguf");
  environment_.clear();
  sources_.default_file =
      WriteTestFile("usual.yaml", "model: {path: b.gguf}\n");
  EXPECT_EQ(Parse({})->config.engine.model_path, "b.gguf");
  sources_.default_file = "/nowhere/kvasird.yaml";
  EXPECT_TRUE(Parse({"--model=c.gguf"}).ok()) << "it need not exist";
}

TEST_F(ServerConfigTest, ModelMayCarryItsName) {
  EXPECT_EQ(Parse({"--model=chat=/a/b.gguf"})->config.engine.model_name,
            "chat");
  EXPECT_EQ(Parse({"--model=chat=/a/b.gguf"})->config.engine.model_path,
            "/a/b.gguf");
  EXPECT_EQ(Parse({"--model=/a=b/c.gguf"})->config.engine.model_path,
            "/a=b/c.gguf")
      << "a name has no slash";
  EXPECT_EQ(
      Parse({"--model=m.gguf", "--model-name=x"})->config.engine.model_name,
      "x");
}

// It names a version in metrics, logs and on the command line.
TEST_F(ServerConfigTest, TheFirstVersionMayHaveALabel) {
  EXPECT_EQ(Parse({"--model=m.gguf"})->config.engine.version_label, "");
  EXPECT_EQ(Parse({"--model=m.gguf", "--version-label=2026-11"})
                ->config.engine.version_label,
            "2026-11");
  ExpectError({"--model=m", "--version-label=a b"},
              {"--version-label: wanted at most 128 bytes", "\"a b\"", "flag"});
}

// The operator must see from the line alone which of four places is wrong.
TEST_F(ServerConfigTest, ErrorsNameOptionOriginWantedAndFound) {
  ExpectError({"--model=m", "--cache-size=512"},
              {"--cache-size", "wanted", "\"512\"", "flag"});
  environment_["KVASIR_ENGINE_THREADS"] = "many";
  ExpectError({"--model=m"}, {"--threads", "wanted a whole number", "\"many\"",
                              "environment KVASIR_ENGINE_THREADS"});
  environment_.clear();
  ExpectError({}, {"--model", "found none"});
  ExpectError({"--model=m", "--listen=8001"}, {"--listen", "HOST:PORT"});
  ExpectError({"--model=m", "--simd=fast"}, {"--simd", "auto or scalar"});
  ExpectError({"--model=m", "--log-level=loud"}, {"--log-level", "loud"});
  ExpectError({"--model=m", "--prefix-caching=perhaps"}, {"--prefix-caching"});
  ExpectError({"--model=m", "--max-message=1B"}, {"--max-message", "1KiB"});
  ExpectError({"--model=m", "--stream-queue=0"}, {"--stream-queue"});
  ExpectError({"--model=m", "--max-streams=0"}, {"--max-streams"});
  ExpectError({"--model=m", "--slow-reader-timeout=x"},
              {"--slow-reader-timeout"});
  ExpectError({"--model=m", "--tenant-limit=a=1"},
              {"--tenant-limit", "requests:N"});
  for (const char* ratio : {"-0.1", "1.1", "nan", "x", ""}) {
    ExpectError({"--model=m", absl::StrCat("--log-prompts=", ratio)},
                {"--log-prompts"});
  }
  // It takes no other option for its value.
  ExpectError({"--model=m", "--log-prompts=", "--listen=127.0.0.1:0"},
              {"--log-prompts", "\"\""});
  ExpectError({"--model=m", "--print-config=false"},
              {"--print-config: wanted no value"});
  ExpectError({"--model=m", "--cache-size=0%"}, {"--cache-size"});
  ExpectError({"--model=m", "--modle=x"}, {"--modle"});
  ExpectError({"--model=m", "stray"}, {"stray"});
  ExpectError({"--model=m", "--config=/nowhere.yaml"}, {"/nowhere.yaml"});
}

// Whoever serves several models names them all alike, wherever that is.
TEST_F(ServerConfigTest, ModelsFromEverySource) {
  const auto models = [](const absl::StatusOr<ParsedConfig>& parsed) {
    if (!parsed.ok()) return parsed.status().ToString();
    const EngineOptions& engine = parsed->config.engine;
    std::string text = engine.model_name + "=" + engine.model_path;
    for (const ModelSource& model : engine.more_models) {
      text += " " + model.name + "=" + model.path;
    }
    return text;
  };
  const std::string file = WriteTestFile(
      "models.yaml", "model:\n  path:\n    - a=x,1.gguf\n    - y.gguf\n");
  auto parsed = Parse({"--config", file});
  EXPECT_EQ(models(parsed), "a=x,1.gguf =y.gguf");
  EXPECT_THAT(Origin(*parsed, "model.path"), HasSubstr("yaml:3"));
  EXPECT_THAT(FormatConfig(parsed->values), HasSubstr("a=x,1.gguf,y.gguf  "));
  environment_["KVASIR_MODEL_PATH"] = "e=1.gguf,f=2.gguf";
  EXPECT_EQ(models(Parse({"--config", file})), "e=1.gguf f=2.gguf");
  EXPECT_EQ(models(Parse({"--model", "b=1", "--model=c=2", "--model=d"})),
            "b=1 c=2 =d");
  parsed = Parse({"--model=b=1", "--model=c=2", "--model-name=first"});
  EXPECT_EQ(models(parsed), "first=1 c=2");
  EXPECT_EQ(models(Parse({"--model=only"})), "=only");
  ExpectError({"--model=b=1", "--model=b=2"},
              {"--model: ", "\"b\" twice", "flag --model"});
  ExpectError({"--model=b=1", "--model=c=2", "--model-name=c"},
              {"--model-name: ", "\"c\" twice"});
  // A name may be what tells two files apart; and it mends no others.
  EXPECT_EQ(models(Parse(
                {"--model=x/m.gguf", "--model=y/m.gguf", "--model-name=foo"})),
            "foo=x/m.gguf =y/m.gguf");
  ExpectError({"--model=x/m.gguf", "--model=y/m.gguf"},
              {"--model: ", "\"m\" twice", "flag --model"});
  ExpectError({"--model=a=1", "--model=b=2", "--model=b=3", "--model-name=q"},
              {"--model: ", "\"b\" twice", "flag --model"});
}

// A list may come as flags, as one text with commas, or as a list.
TEST_F(ServerConfigTest, TenantQuotasFromEverySource) {
  const auto salts = [](const absl::StatusOr<ParsedConfig>& parsed) {
    std::string text;
    if (!parsed.ok()) return parsed.status().ToString();
    for (const TenantShare& tenant : parsed->config.engine.tenant_quotas) {
      text += tenant.salt + " ";
    }
    return text;
  };
  EXPECT_EQ(salts(Parse({"--model=m"})), "");
  const std::string file = WriteTestFile(
      "tenants.yaml", "cache:\n  tenant_quotas:\n    - f=10%\n    - g=4:8\n");
  auto parsed = Parse({"--model=m", "--config", file});
  EXPECT_EQ(salts(parsed), "f g ");
  EXPECT_THAT(Origin(*parsed, "cache.tenant_quotas"), HasSubstr("yaml:3"));
  environment_["KVASIR_CACHE_TENANT_QUOTAS"] = "e=1,d=2MiB";
  EXPECT_EQ(salts(Parse({"--model=m", "--config", file})), "e d ");
  parsed = Parse({"--model=m", "--config", file, "--tenant-quota", "a=10%:20%",
                  "--tenant-quota=b=5"});
  EXPECT_EQ(salts(parsed), "a b ");
  ExpectError({"--model=m", "--tenant-quota=a=1", "--tenant-quota=a=2"},
              {"--tenant-quota", "entry 2: wanted each salt once",
               "flag --tenant-quota"});
  environment_["KVASIR_CACHE_TENANT_QUOTAS"] = "e=5:1";
  ExpectError({"--model=m"}, {"--tenant-quota", "not below FLOOR",
                              "environment KVASIR_CACHE_TENANT_QUOTAS"});
}

TEST_F(ServerConfigTest, FileErrorsNameFileAndLine) {
  const auto error = [this](const std::string& text) {
    const std::string file = WriteTestFile("bad.yaml", text);
    return std::string(
        Parse({"--model=m", "--config", file}).status().message());
  };
  EXPECT_THAT(error("model:\n  path: m\n  pathh: n\n"),
              AllOf(HasSubstr("bad.yaml:3"), HasSubstr("model.pathh")));
  EXPECT_THAT(error("cache:\n  size: [1, 2]\n"),
              AllOf(HasSubstr("bad.yaml:2"), HasSubstr("found a list")));
  EXPECT_THAT(error("cache:\n  tenant_quotas: [[1], 2]\n"),
              HasSubstr("bad.yaml:2"));
  EXPECT_THAT(error("cache: {size: 1GiB}\ncache: {size: 2GiB}\n"),
              AllOf(HasSubstr("bad.yaml:2"), HasSubstr("twice")));
  EXPECT_THAT(error("just words\n"), HasSubstr("bad.yaml:1"));
  EXPECT_THAT(error("a: [1\n"), HasSubstr("bad.yaml:"));
  EXPECT_THAT(error("cache:\n  size: 512\n"),
              AllOf(HasSubstr("--cache-size"), HasSubstr("bad.yaml:2")));
  EXPECT_EQ(error(""), "") << "an empty file says nothing wrong";
}

TEST_F(ServerConfigTest, PrintConfigShowsValuesAndOrigins) {
  const absl::StatusOr<ParsedConfig> parsed =
      Parse({"--print-config", "--cache-size=60%"});
  ASSERT_TRUE(parsed.ok()) << "no model is needed to look: " << parsed.status();
  EXPECT_EQ(parsed->action, ParsedConfig::Action::kPrintConfig);
  EXPECT_DOUBLE_EQ(parsed->config.sizing.share, 0.6);
  const std::string text = FormatConfig(parsed->values);
  EXPECT_THAT(text, HasSubstr("cache.size"));
  EXPECT_THAT(text, testing::ContainsRegex("60% +flag --cache-size"));
  EXPECT_THAT(text,
              testing::ContainsRegex("engine.token_budget +256 +default"));
}

// A salt is what keeps a tenant's content from others.
TEST_F(ServerConfigTest, PrintConfigShowsTenantsByTheirHash) {
  const auto parsed = Parse(
      {"--model=m", "--tenant-quota=s3cret=10%:20%", "--tenant-quota==5",
       "--tenant-limit=s3cret=requests:3", "--tenant-limit=*=requests:4"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const std::string text = FormatConfig(parsed->values);
  EXPECT_THAT(text, HasSubstr("#" + HashSalt("s3cret") + "=10%:20%,=5 "));
  EXPECT_THAT(
      text, HasSubstr("#" + HashSalt("s3cret") + "=requests:3;*=requests:4 "));
  EXPECT_THAT(text, testing::Not(HasSubstr("s3cret")));
}

// Each is fine alone; which of two is wrong must be seen from the line alone.
TEST_F(ServerConfigTest, SizesOfTheCacheMustGoTogether) {
  const auto parsed =
      Parse({"--model=m", "--cache-floor=1GiB", "--cache-ceiling=4GiB",
             "--cache-auto-resize=off", "--cache-size=2GiB"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->config.engine.cache_bytes, int64_t{2} << 30);
  EXPECT_EQ(parsed->config.sizing.floor_bytes, int64_t{1} << 30);
  EXPECT_EQ(parsed->config.sizing.ceiling_bytes, int64_t{4} << 30);
  EXPECT_FALSE(parsed->config.sizing.auto_resize);
  environment_["KVASIR_CACHE_FLOOR"] = "3GiB";
  ExpectError({"--model=m", "--cache-size=2GiB"},
              {"--cache-floor: wanted at most the cache's size of 2 GiB, found "
               "\"3GiB\" (environment KVASIR_CACHE_FLOOR)"});
  ExpectError({"--print-config", "--cache-ceiling=1GiB"},
              {"--cache-floor: wanted at most the cache's ceiling of 1 GiB"});
  environment_.clear();
  ExpectError({"--model=m", "--cache-size=2GiB", "--cache-ceiling=1GiB"},
              {"--cache-ceiling: wanted at least the cache's size of 2 GiB"});
  ExpectError({"--model=m", "--cache-ceiling=50%"},
              {"--cache-ceiling: wanted auto or bytes", "\"50%\""});
  ExpectError({"--model=m", "--cache-auto-resize=perhaps"},
              {"--cache-auto-resize"});
#if KVASIR_TEST_HOOKS
  ExpectError({"--model=m", "--cache-size=2GiB", "--test-system-root=/fake"},
              {"--cache-size: wanted at most the memory limit of 1 GiB"});
#endif
}

// --help is the reference: it must not miss an option.
TEST_F(ServerConfigTest, HelpNamesEveryOptionWithEnvironmentAndDefault) {
  const absl::StatusOr<ParsedConfig> help = Parse({"--help"});
  ASSERT_TRUE(help.ok());
  EXPECT_EQ(help->action, ParsedConfig::Action::kPrintText);
  const absl::StatusOr<ParsedConfig> all = Parse({"--print-config"});
  for (const ConfigValue& value : all->values) {
    std::string name = "KVASIR_" + value.key;
    std::transform(name.begin(), name.end(), name.begin(), [](char c) {
      return c == '.' ? '_' : static_cast<char>(std::toupper(c));
    });
    EXPECT_THAT(help->text, HasSubstr(name));
  }
  EXPECT_THAT(Parse({"--version"})->text, HasSubstr(KVASIR_VERSION));
}

TEST(ConfigFileTest, FlattensSections) {
  const std::string file =
      WriteTestFile("flat.yaml", "a:\n  b:\n    c: 1\n  d: x y\n");
  const auto values = ReadConfigFile(file);
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(values->at("a.b.c").text, "1");
  EXPECT_EQ(values->at("a.b.c").line, 3);
  EXPECT_EQ(values->at("a.d").text, "x y");
  EXPECT_TRUE(absl::IsNotFound(ReadConfigFile("/nowhere").status()));
}

// Found only by the engine, these would cost two ports and a model's loading
// before they are told, under names that no command line knows.
TEST_F(ServerConfigTest, WhatTheEngineWouldRefuseIsRefusedByOption) {
  ExpectError({"--model=m", "--threads=5000"},
              {"--threads: wanted 0 to 1024, found 5000", "flag --threads"});
  ExpectError({"--model=m", "--token-budget=65537"},
              {"--token-budget: wanted 1 to 65536"});
  ExpectError({"--model=m", "--block-tokens=12"},
              {"--block-tokens: wanted a multiple of 8, found 12"});
  ExpectError({"--model=m", "--context-limit=1"},
              {"--context-limit: wanted 2"});
  ExpectError({"--model=m", "--activations=f16"},
              {"--activations: wanted \"q8\" or \"f32\""});
  environment_["KVASIR_CACHE_KV_TYPE"] = "int4";
  ExpectError({"--model=m", "--print-config"},
              {"--kv-type: wanted \"f16\" or \"f32\", found \"int4\"",
               "environment KVASIR_CACHE_KV_TYPE"});
}

TEST_F(ServerConfigTest, ANameWithThePathCountsAsMuchAsThePath) {
  environment_["KVASIR_MODEL_NAME"] = "environment";
  auto parsed = Parse({"--model=flag=/m.gguf"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->config.engine.model_name, "flag");
  EXPECT_EQ(Origin(*parsed, "model.name"), "flag --model");
  EXPECT_EQ(Parse({"--model=flag=/m.gguf", "--model-name=own"})
                ->config.engine.model_name,
            "own");
  environment_["KVASIR_MODEL_PATH"] = "path=/m.gguf";
  EXPECT_EQ(Parse({})->config.engine.model_name, "environment");
  environment_.erase("KVASIR_MODEL_NAME");
  EXPECT_EQ(Parse({})->config.engine.model_name, "path");
}

// What comes from outside is shown on one line, whatever is in it, and what is
// no file of settings does not hang or kill the start.
TEST_F(ServerConfigTest, OddInputIsRefusedOnOneLine) {
  const std::string folder = testing::TempDir();
  ExpectError({"--config", folder}, {folder, "no regular file"});
  const std::string pipe = TempPath("settings.fifo");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ExpectError({"--config", pipe}, {pipe, "no regular file"});
  ExpectError({"--config", folder + "/none"}, {"none", "No such file"});
  ExpectError({"--config", "/dev/zero"}, {"at most 1048576 bytes"});
  ExpectError({"--model=m", "--log-level=a\nb"}, {"\"a\\nb\""});
  ExpectError({"--model=m", "--listen=127.0.0.1:80\n"}, {"--listen", "\\n"});
  ExpectError({"--model=m", "--threads= 2"}, {"--threads"});
  for (const char* name : {"a\nb", "\xff\xfe"}) {
    ExpectError({"--model=m", std::string("--model-name=") + name},
                {"--model-name: wanted", "UTF-8"});
    ExpectError({std::string("--model=/x/") + name + ".gguf"}, {"--model: "});
  }
  ExpectError({"--model=m", "--cache-size=1001GiB"},
              {"--cache-size: wanted at most the memory limit of 0.98 TiB"});
  const std::string file = TempPath("odd.yaml");
  std::ofstream(file) << "? [a]\n: b\n";
  ExpectError({"--config", file}, {"odd.yaml:1", "a plain key"});
  std::ofstream(file) << "\"cache\\nx\": 1\n";
  ExpectError({"--config", file}, {"unknown key \"cache\\nx\""});
}

}  // namespace
}  // namespace kvasir
