// Prints what came from the allocator that counts: operator new, aligned new, blocks of libc for itself.
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

extern "C" volatile int calls_of_program, calls_of_libc;
static volatile int exits;

struct alignas(256) Aligned {
    char bytes[512];
};

template <typename Action> static bool counts(Action action) {
    int before = calls_of_program;
    action();
    return calls_of_program > before;
}

int main() {
    bool plain = counts([] { int *volatile block = new int(7); delete block; });
    bool aligned = counts([] {
        Aligned *volatile block = new Aligned;
        if (reinterpret_cast<std::uintptr_t>(block) % 256) std::abort();
        delete block;
    });
    std::string caught;
    std::thread thread([&] {
        try {
            throw std::runtime_error("a message that is too long to be kept inside of a string object");
        } catch (const std::exception &error) {
            caught = error.what();
        }
    });
    thread.join();
    bool refused = false;
    try {
        volatile std::size_t size = std::size_t(1) << 40;
        char *volatile block = new char[size];
        delete[] block;
    } catch (const std::bad_alloc &) {
        refused = true;
    }
    for (int i = 0; i < 40; i++) std::atexit([] { exits++; });
    std::cout << "new " << plain << ", aligned new " << aligned << ", libc " << (calls_of_libc > 0) << ", caught "
              << caught.size() << ", refused " << refused << std::endl;
}
