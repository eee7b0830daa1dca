// A program that replaces operator new and delete keeps its own, as C++ allows (C++17 [new.delete]).
#include "check.hpp"
#include <new>
#include <string>
#include <thread>
#include <vector>

static thread_local std::size_t own_calls;

void *operator new(std::size_t size)
{
	own_calls++;
	if (void *block = std::malloc(size + 16))
		return static_cast<char *>(block) + 16;
	throw std::bad_alloc();
}

void operator delete(void *block) noexcept
{
	if (block != nullptr)
		std::free(static_cast<char *>(block) - 16);
}

void operator delete(void *block, std::size_t) noexcept
{
	operator delete(block);
}

int main()
{
	deadline(60);
	auto use = [] {
		std::size_t before = own_calls;
		std::vector<std::string> texts;
		for (int i = 0; i < 1000; i++)
			texts.push_back("a text that is too long for the small string optimisation");
		CHECK(own_calls > before + 1000);
	};
	use();
	std::vector<std::thread> threads;
	for (int i = 0; i < 8; i++)
		threads.emplace_back(use);
	for (auto &thread : threads)
		thread.join();
	std::printf("ok own_operators\n");
}
