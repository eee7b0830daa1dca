cat >program.cc <<'PROGRAM'
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

template <int N> struct Fibonacci { static constexpr long value = Fibonacci<N - 1>::value + Fibonacci<N - 2>::value; };
template <> struct Fibonacci<1> { static constexpr long value = 1; };
template <> struct Fibonacci<0> { static constexpr long value = 0; };

int main() {
    std::map<std::string, std::vector<std::unique_ptr<int>>> words;
    for (int i = 0; i < 20000; i++) words["w" + std::to_string(i % 997)].push_back(std::make_unique<int>(i));
    std::vector<std::thread> threads;
    std::vector<long> sums(4);
    for (int t = 0; t < 4; t++) threads.emplace_back([&, t] {
        std::vector<std::string> texts;
        for (int i = 0; i < 20000; i++) texts.push_back(std::string(i % 100, 'a' + t));
        for (auto &text : texts) sums[t] += text.size();
    });
    for (auto &thread : threads) thread.join();
    try { throw std::string(1000, 'x'); } catch (const std::string &text) { std::cout << text.size() << '\n'; }
    std::cout << words.size() << ' ' << sums[3] << ' ' << Fibonacci<60>::value << '\n';
}
PROGRAM
g++ -std=c++20 -O2 -pthread program.cc -o program
g++ -std=c++20 -O2 -flto=2 -pthread program.cc -o program-lto
g++ -std=c++20 -O1 -pthread -fuse-ld=lld program.cc -o program-lld
for program in program program-lto program-lld; do
    "./$program"
    strip --strip-all -o stripped "$program"
    sha256sum <stripped
done
nm --demangle program | grep -c ' T '
objdump --disassemble program | wc --lines
