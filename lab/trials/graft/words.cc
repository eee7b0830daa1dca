#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

int main() {
    std::map<std::string, int> counts;
    for (std::string word; std::cin >> word;) ++counts[word];
    std::vector<std::thread> threads;
    std::vector<std::unique_ptr<std::string>> kept(4);
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&kept, i] {
            for (int j = 0; j < 10000; ++j) kept[i] = std::make_unique<std::string>(100 + j % 100, 'a' + i);
        });
    for (auto &thread : threads) thread.join();
    std::vector<std::pair<int, std::string>> all;
    for (auto &[word, count] : counts) all.emplace_back(-count, word);
    std::sort(all.begin(), all.end());
    try {
        std::cout << counts.size() << ' ' << kept.at(3)->substr(0, 5) << ' ' << kept.at(4)->size() << '\n';
    } catch (const std::out_of_range &error) {
        std::cout << "caught " << error.what() << '\n';
    }
    for (size_t i = 0; i < std::min<size_t>(10, all.size()); ++i) std::cout << -all[i].first << ' ' << all[i].second << '\n';
}
