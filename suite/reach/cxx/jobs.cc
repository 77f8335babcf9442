// Per-thread counters, a lock beside the data that others read, and a queue of one producer and one consumer.
// The same program as ../c/jobs.c and ../rust/jobs.rs.
#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace jobs {

constexpr int threads = 4;
constexpr long rounds = 40000, slots = 256;

struct Counter {
	volatile long done = 0;
	volatile long failed = 0;
};

struct Table {
	std::mutex lock;
	long entries = 0;
	std::atomic<long> limit{0};
	long changes = 0;
};

struct Queue {
	std::atomic<long> head{0};
	std::atomic<long> tail{0};
	std::vector<long> slots = std::vector<long>(jobs::slots);
};

static void work(Counter *own)
{
	for (long i = 0; i < rounds; i++) {
		if (i % 3)
			own->done = own->done + 1;
		else
			own->failed = own->failed + 1;
	}
}

static void change(Table *table)
{
	for (long i = 0; i < rounds; i++) {
		std::lock_guard<std::mutex> hold(table->lock);
		table->entries++;
		table->changes += i & 1;
	}
}

static void look(Table *table, long *sum)
{
	for (long i = 0; i < 4 * rounds; i++)
		*sum += table->limit.load(std::memory_order_relaxed);
}

static void produce(Queue *queue)
{
	for (long i = 0; i < rounds; i++) {
		queue->slots[i % slots] = i;
		queue->tail.store(i + 1, std::memory_order_release);
	}
}

static void consume(Queue *queue)
{
	for (long i = 0; i < rounds; i++)
		queue->head.store(i + 1, std::memory_order_release);
}

} // namespace jobs

int main()
{
	using namespace jobs;
	auto counters = std::make_unique<Counter[]>(threads);
	auto table = std::make_unique<Table>();
	auto queue = std::make_unique<Queue>();
	std::vector<std::thread> all;
	for (int i = 0; i < threads; i++)
		all.emplace_back(work, &counters[i]);
	for (auto &t : all)
		t.join();
	long sum = 0;
	std::thread a(change, table.get()), b(look, table.get(), &sum);
	a.join();
	b.join();
	std::thread c(produce, queue.get()), d(consume, queue.get());
	c.join();
	d.join();
	long done = 0, failed = 0;
	for (int i = 0; i < threads; i++) {
		done += counters[i].done;
		failed += counters[i].failed;
	}
	std::printf("%ld %ld %ld %ld %ld\n", done, failed, table->entries, queue->tail.load(), queue->head.load());
	return sum == 1;
}
