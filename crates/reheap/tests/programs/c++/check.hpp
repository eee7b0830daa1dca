// As ../c/check.h: the first failed check ends the process and names its line; a deadlock ends it too.
#pragma once
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#define CHECK(condition) ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition))

[[noreturn]] inline void check_failed(const char *file, int line, const char *condition)
{
	std::printf("%s:%d: check failed: %s\n", file, line, condition);
	std::fflush(stdout);
	_exit(1);
}

inline void deadline(unsigned seconds)
{
	std::signal(SIGALRM, [](int) {
		static const char message[] = "deadline passed\n";
		_exit(write(1, message, sizeof message - 1) < 0 ? 2 : 1);
	});
	alarm(seconds);
}

inline bool is_aligned(const void *block, std::uintptr_t alignment)
{
	return reinterpret_cast<std::uintptr_t>(block) % alignment == 0;
}
