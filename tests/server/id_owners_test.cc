#include "server/id_owners.h"

#include <string>

#include "gtest/gtest.h"

namespace kvasir {
namespace {

absl::Status Accept() { return absl::OkStatus(); }

TEST(IdOwnersTest, LastAcceptedCallOwnsTheId) {
  IdOwners ids;
  const int old_call = 0;
  const int new_call = 0;
  int cancelled = 0;
  const auto cancel = [&cancelled] { ++cancelled; };
  ids.IfOwner("r", &old_call, cancel);
  EXPECT_EQ(cancelled, 0) << "nobody's yet";
  ASSERT_TRUE(ids.Take("r", &old_call, Accept).ok());
  // One that is refused changes nothing.
  EXPECT_FALSE(ids.Take("r", &new_call,
                        [] { return absl::AlreadyExistsError("in flight"); })
                   .ok());
  ids.IfOwner("r", &new_call, cancel);
  EXPECT_EQ(cancelled, 0);
  ids.IfOwner("r", &old_call, cancel);
  EXPECT_EQ(cancelled, 1);
  ASSERT_TRUE(ids.Take("r", &new_call, Accept).ok());
  ids.IfOwner("r", &old_call, cancel);
  EXPECT_EQ(cancelled, 1);
  ids.Release("r", &old_call);  // late
  ids.IfOwner("r", &new_call, cancel);
  EXPECT_EQ(cancelled, 2);
  ids.Release("r", &new_call);
  ids.IfOwner("r", &new_call, cancel);
  EXPECT_EQ(cancelled, 2);
}

}  // namespace
}  // namespace kvasir
