// Checks of our own invariants. What a user can cause is an absl::Status (base/status.h), never a
// CHECK.
//
//   DUOTONE_CHECK(users.empty()) << "node %" << name;
#ifndef DUOTONE_BASE_CHECK_H_
#define DUOTONE_BASE_CHECK_H_

#include <sstream>

namespace duotone {

// Collects a message and ends the process with it when destroyed.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  [[noreturn]] ~CheckFailure();
  CheckFailure(const CheckFailure&) = delete;
  CheckFailure& operator=(const CheckFailure&) = delete;

  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

// Lets the ternary in DUOTONE_CHECK have type void on both sides.
struct CheckVoidify {
  void operator&(std::ostream&) const {}
};

}  // namespace duotone

#define DUOTONE_CHECK(condition)            \
  (condition) ? (void)0                     \
              : ::duotone::CheckVoidify() & \
                    ::duotone::CheckFailure(__FILE__, __LINE__, #condition).stream()

#endif  // DUOTONE_BASE_CHECK_H_
