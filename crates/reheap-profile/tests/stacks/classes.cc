#include <stdexcept>
#include <vector>

extern "C" void probe(void);

namespace shop {
template <typename T> struct Shelf {
    T item;
    __attribute__((always_inline)) void put_inlined() { probe(); __asm__ volatile("" ::: "memory"); }
    __attribute__((noinline)) void put() { put_inlined(); __asm__ volatile("" ::: "memory"); }
};
struct Guard { ~Guard() { __asm__ volatile("" ::: "memory"); } };

__attribute__((noinline)) void restock(int n) {
    Guard guard;
    try {
        if (n == 0) throw std::runtime_error("empty");
        restock(n - 1);
    } catch (const std::exception &) {
        Shelf<double> shelf{};
        shelf.put();
    }
    __asm__ volatile("" ::: "memory");
}
}

int main() {
    shop::restock(2);
    __asm__ volatile("" ::: "memory");
    return 0;
}
