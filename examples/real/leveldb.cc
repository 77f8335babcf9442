// Threads that read and write one leveldb database: seconds of a small server's life.
#include <leveldb/cache.h>
#include <leveldb/db.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int threads = std::atoi(argv[2]), operations = std::atoi(argv[3]);
  leveldb::Options options;
  options.create_if_missing = true;
  options.block_cache = leveldb::NewLRUCache(8 << 20);
  leveldb::DB* db = nullptr;
  if (!leveldb::DB::Open(options, argv[1], &db).ok()) return 1;
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; t++) {
    workers.emplace_back([=] {
      unsigned random = 12345 + t;
      std::string value;
      for (int i = 0; i < operations; i++) {
        random = random * 1664525 + 1013904223;
        const std::string key = std::to_string(random >> 8 & 0xffff);
        if ((random >> 28) == 0)
          db->Put(leveldb::WriteOptions(), key, key + key);
        else
          db->Get(leveldb::ReadOptions(), key, &value);
      }
    });
  }
  for (auto& w : workers) w.join();
  delete db;
  delete options.block_cache;
}
