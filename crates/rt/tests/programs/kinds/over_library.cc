// A program whose operators are a library's.
#include "kinds.h"
#include <map>
#include <string>
#include <thread>
#include <vector>
extern long library_made, library_gone;
static int library() {
    {
        std::map<std::string, std::vector<int>> m;
        for (int i = 0; i < 50; i++) m["a key that needs the heap " + std::to_string(i)].resize(100);
        std::thread([] { delete new long[40]; }).join();
    }
    printf("%d %d\n", library_made > 100, library_made - library_gone < 10);
    fights();
    return 0;
}
KINDS({"library", library})
