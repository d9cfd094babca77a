#include "server/admin_log.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "kvasir/v1/cache_admin.pb.h"
#include "server/call_stats.h"
#include "server/status_reason.h"

namespace kvasir {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(AdminLogTest, WhatIsAskedForIsToldByField) {
  v1::ResizeCacheRequest resize;
  resize.set_blocks(20);
  resize.set_strategy(v1::RESIZE_STRATEGY_WAIT);
  EXPECT_EQ(ChangeIn(resize), "blocks=20 strategy=RESIZE_STRATEGY_WAIT");
  v1::PinPrefixRequest pin;
  pin.set_prefix_id("00ff");
  pin.mutable_ttl()->set_seconds(60);
  EXPECT_EQ(ChangeIn(pin), "prefix_id=00ff ttl=60s");
  v1::EvictPrefixesRequest evict;
  evict.mutable_ids()->add_ids(std::string("00aa"));
  EXPECT_EQ(ChangeIn(evict), "ids.ids=\"00aa\"");
  evict.mutable_ids()->add_ids(std::string("00bb"));
  evict.set_dry_run(true);
  EXPECT_EQ(ChangeIn(evict), "ids.ids_count=2 dry_run=true");
  EXPECT_EQ(ChangeIn(v1::RollbackCacheVersionRequest()), "");
}

// Salts are what tells tenants apart, and shown nowhere as they are.
TEST(AdminLogTest, SaltsAreNotTold) {
  v1::EvictPrefixesRequest evict;
  evict.mutable_filter()->set_salt("secret");
  EXPECT_EQ(ChangeIn(evict), "filter.salt=[salt]");
  v1::FlushCacheRequest flush;
  flush.set_scope(v1::FLUSH_SCOPE_SALT);
  flush.set_value("secret");
  EXPECT_EQ(ChangeIn(flush), "scope=FLUSH_SCOPE_SALT value=[salt]");
  flush.clear_scope();
  EXPECT_EQ(ChangeIn(flush), "value=[salt]") << "a scope that was forgotten";
  flush.set_scope(v1::FLUSH_SCOPE_MODEL);
  EXPECT_EQ(ChangeIn(flush), "scope=FLUSH_SCOPE_MODEL value=secret");
}

// Prompts to be warmed are prompts.
TEST(AdminLogTest, PromptsAreCountedOnly) {
  v1::WarmCacheRequest warm;
  warm.add_prompts()->set_text("secret words");
  warm.add_prompts()->set_text("more of them");
  EXPECT_THAT(ChangeIn(warm), Not(HasSubstr("secret")));
  EXPECT_THAT(ChangeIn(warm), HasSubstr("prompts_count=2"));
}

TEST(AdminLogTest, LongValuesAreCut) {
  v1::PinPrefixRequest pin;
  pin.set_prefix_id(std::string(100000, 'x'));
  EXPECT_LE(ChangeIn(pin).size(), kMaxChangeBytes + 3);
}

// Whoever adds a method that changes something enters it in the table; one
// that is gone or misspelt would silently log and count nothing.
TEST(AdminLogTest, OperationsAreMethods) {
  const std::set<std::string> methods(MethodNames().begin(),
                                      MethodNames().end());
  std::set<std::string> names;
  for (const AdminOperation& operation : AdminOperations()) {
    EXPECT_TRUE(methods.contains(operation.method)) << operation.method;
    EXPECT_TRUE(names.insert(operation.op).second) << operation.op;
    EXPECT_STREQ(AdminOperationOf(operation.method), operation.op);
  }
  EXPECT_EQ(AdminOperationOf("kvasir.v1.CacheAdmin/GetCacheStats"), nullptr);
}

TEST(AdminLogTest, TheLineTellsWhoWhatAndTheEnd) {
  testing::internal::CaptureStderr();
  LogAdminCall("kvasir.v1.CacheAdmin/ResizeCache", {"ops", "blocks=3"},
               absl::FailedPreconditionError("a resize is under way"));
  LogAdminCall("kvasir.v1.CacheAdmin/FlushCache", {"ops", ""},
               absl::OkStatus());
  LogAdminCall("kvasir.v1.CacheAdmin/GetCacheStats", {"ops", ""},
               absl::OkStatus());
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_THAT(lines, HasSubstr("administrative call ended op=resize who=ops "
                               "what=blocks=3 code=FAILED_PRECONDITION "
                               "reason=RESIZE_RUNNING"));
  EXPECT_THAT(lines, HasSubstr("op=flush who=ops what=\"\" code=OK\n"));
  EXPECT_THAT(lines, Not(HasSubstr("GetCacheStats")));
}

}  // namespace
}  // namespace kvasir
