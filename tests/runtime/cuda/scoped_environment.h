// Sets an environment variable, or takes it away, while in scope.
#ifndef DUOTONE_TESTS_RUNTIME_CUDA_SCOPED_ENVIRONMENT_H_
#define DUOTONE_TESTS_RUNTIME_CUDA_SCOPED_ENVIRONMENT_H_

#include <cstdlib>
#include <optional>
#include <string>

namespace duotone::runtime {

class ScopedEnvironment {
 public:
  // Null takes the variable away.
  ScopedEnvironment(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name); before != nullptr) before_ = before;
    Set(value);
  }
  ~ScopedEnvironment() { Set(before_.has_value() ? before_->c_str() : nullptr); }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  void Set(const char* value) {
    if (value == nullptr) {
      unsetenv(name_);
    } else {
      setenv(name_, value, 1);
    }
  }

  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace duotone::runtime

#endif  // DUOTONE_TESTS_RUNTIME_CUDA_SCOPED_ENVIRONMENT_H_
