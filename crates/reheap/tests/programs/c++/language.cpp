// What C++ itself does with the heap: every form of new and delete, exceptions (allocated by the runtime), streams, containers,
// threads and thread-local objects. The operators are those of the C++ library; they must reach the new malloc.
#include "check.hpp"
#include <atomic>
#include <exception>
#include <future>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

struct alignas(64) CacheLine {
	unsigned char bytes[64];
};
struct alignas(4096) Page {
	unsigned char bytes[4096];
};
struct alignas(1 << 20) Mebibyte {
	unsigned char bytes[1 << 20];
};

template <typename T> void over_aligned_objects_are_aligned()
{
	std::vector<std::unique_ptr<T>> objects;
	for (int i = 0; i < 20; i++) {
		objects.push_back(std::make_unique<T>());
		CHECK(is_aligned(objects.back().get(), alignof(T)));
		objects.back()->bytes[0] = objects.back()->bytes[sizeof(T) - 1] = static_cast<unsigned char>(i);
	}
	for (int i = 0; i < 20; i++)
		CHECK(objects[i]->bytes[0] == i && objects[i]->bytes[sizeof(T) - 1] == i);
	std::vector<T> together(5);
	CHECK(is_aligned(together.data(), alignof(T)));
	auto array = std::unique_ptr<T[]>(new T[3]);
	CHECK(is_aligned(array.get(), alignof(T)));
}

void every_operator_new_has_its_delete()
{
	for (std::size_t size = 0; size < 3000000; size = size * 3 + 1) {
		::operator delete(::operator new(size));
		::operator delete(::operator new(size), size);
		::operator delete[](::operator new[](size));
		::operator delete(::operator new(size, std::nothrow), std::nothrow);
		for (std::size_t alignment = 16; alignment <= 65536; alignment *= 8) {
			auto wanted = std::align_val_t(alignment);
			void *block = ::operator new(size, wanted);
			CHECK(is_aligned(block, alignment));
			::operator delete(block, size, wanted);
			block = ::operator new[](size, wanted, std::nothrow);
			CHECK(block != nullptr && is_aligned(block, alignment));
			::operator delete[](block, wanted);
		}
	}
}

volatile std::size_t impossible = std::numeric_limits<std::ptrdiff_t>::max() - 100;

void memory_that_cannot_be_had_throws_or_is_null()
{
	for (int i = 0; i < 100; i++) {
		bool thrown = false;
		try {
			::operator delete(::operator new(impossible));
		} catch (const std::bad_alloc &) {
			thrown = true;
		}
		CHECK(thrown);
		thrown = false;
		try {
			::operator delete(::operator new(impossible, std::align_val_t(4096)), std::align_val_t(4096));
		} catch (const std::bad_alloc &) {
			thrown = true;
		}
		CHECK(thrown);
		CHECK(::operator new(impossible, std::nothrow) == nullptr);
		CHECK(::operator new(impossible, std::align_val_t(64), std::nothrow) == nullptr);
	}
	int handler_calls = 0;
	static int *calls;
	calls = &handler_calls;
	std::set_new_handler([] {
		if (++*calls == 3)
			throw std::bad_alloc();
	});
	try {
		::operator delete(::operator new(impossible));
		CHECK(!"bad_alloc was thrown");
	} catch (const std::bad_alloc &) {
	}
	std::set_new_handler(nullptr);
	CHECK(handler_calls == 3);
}

struct Large {
	char bytes[5000];
};

int throw_deep(int depth)
{
	std::string local(static_cast<std::size_t>(depth) * 10, 'x');
	if (depth == 0)
		throw std::runtime_error("from below");
	return throw_deep(depth - 1) + static_cast<int>(local.size());
}

void exceptions_are_allocated_and_freed()
{
	for (int i = 0; i < 2000; i++) {
		try {
			throw_deep(i % 30);
			CHECK(!"something was thrown");
		} catch (const std::exception &error) {
			CHECK(std::string(error.what()) == "from below");
		}
	}
	try {
		throw Large{{42}};
	} catch (const Large &large) {
		CHECK(large.bytes[0] == 42);
	}
	std::exception_ptr kept;
	std::thread([&kept] {
		try {
			throw_deep(5);
		} catch (...) {
			kept = std::current_exception();
		}
	}).join();
	try {
		std::rethrow_exception(kept); // thrown in a thread that is gone
	} catch (const std::runtime_error &error) {
		CHECK(std::string(error.what()) == "from below");
	}
}

void streams_and_containers_work()
{
	std::ostringstream out;
	for (int i = 0; i < 20000; i++)
		out << i << ' ' << 0.5 * i << '\n';
	std::istringstream in(out.str());
	int number;
	double half;
	for (int i = 0; i < 20000; i++) {
		CHECK(static_cast<bool>(in >> number >> half));
		CHECK(number == i && half == 0.5 * i);
	}
	std::map<std::string, std::vector<int>> ordered;
	std::unordered_map<std::string, int> counted;
	for (int i = 0; i < 30000; i++) {
		std::string key = "a key that is too long for the small string optimisation " + std::to_string(i % 3000);
		ordered[key].push_back(i);
		counted[key]++;
	}
	CHECK(ordered.size() == 3000 && counted.size() == 3000);
	for (const auto &[key, values] : ordered)
		CHECK(values.size() == 10 && counted[key] == 10);
	std::string grown;
	for (int i = 0; i < 3000000; i++)
		grown.push_back(static_cast<char>('a' + i % 26));
	CHECK(grown[2999999] == 'a' + 2999999 % 26);
}

std::atomic<int> destroyed;

struct InThread {
	std::vector<std::string> values;
	~InThread()
	{
		for (int i = 0; i < 10; i++)
			values.push_back(std::string(100, 'z'));
		destroyed++;
	}
};

thread_local InThread in_thread;

void threads_share_and_end()
{
	for (int round = 0; round < 3; round++) {
		std::vector<std::thread> threads;
		std::vector<std::shared_ptr<std::string>> shared(64);
		for (auto &one : shared)
			one = std::make_shared<std::string>(1000, 's');
		destroyed = 0;
		for (int i = 0; i < 64; i++)
			threads.emplace_back([i, shared] {
				in_thread.values.push_back(*shared[i]);
				for (int k = 0; k < 300; k++)
					in_thread.values.emplace_back(static_cast<std::size_t>(k), 'v');
				if (i % 8 == 0) {
					try {
						throw_deep(i % 5);
					} catch (const std::runtime_error &) {
					}
				}
			});
		for (auto &thread : threads)
			thread.join();
		CHECK(destroyed == 64);
	}
	std::vector<std::future<std::string>> results;
	for (int i = 0; i < 32; i++)
		results.push_back(std::async(std::launch::async, [i] { return std::string(static_cast<std::size_t>(i) * 100, 'r'); }));
	for (int i = 0; i < 32; i++)
		CHECK(results[i].get().size() == static_cast<std::size_t>(i) * 100);
}

struct Global {
	std::vector<std::string> made_before_main = std::vector<std::string>(100, std::string(100, 'g'));
	~Global()
	{
		for (const auto &text : made_before_main)
			CHECK(text.size() == 100);
		made_before_main.resize(1000, "after main");
	}
} global;

} // namespace

int main()
{
	deadline(120);
	CHECK(global.made_before_main.size() == 100);
	over_aligned_objects_are_aligned<CacheLine>();
	over_aligned_objects_are_aligned<Page>();
	over_aligned_objects_are_aligned<Mebibyte>();
	every_operator_new_has_its_delete();
	memory_that_cannot_be_had_throws_or_is_null();
	exceptions_are_allocated_and_freed();
	streams_and_containers_work();
	threads_share_and_end();
	std::cout << "ok language" << std::endl;
}
