//! Memory of a run per simulated CPU, as `docs/simulator.md` states it.

#![allow(clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use tussle_scenarios::{Setup, Side, Story, World};
use tussle_sim::{Config, machine, simulate};

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, counting.
struct Counting;

// SAFETY: hands every call on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Peak bytes of building and running a scenario.
fn peak(story: Story, cpus: u32) -> usize {
    let machine = machine::find("2s-sapphirerapids-224").unwrap();
    let before = NOW.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let world = World::build(story, &Side::Name(story.about().before.into()), &Setup::new(cpus)).unwrap();
    simulate(&world, &machine, &Config::new(cpus, 100_000, 1)).unwrap();
    PEAK.load(Ordering::Relaxed) - before
}

#[test]
fn memory_per_simulated_cpu_is_as_documented() {
    for (story, most) in [
        (Story::Mmap, 8 << 10),
        (Story::IMmap, 16 << 10),
        (Story::Fault, 8 << 10),
        (Story::Pcp, 512 << 10),
        (Story::Anon, 16 << 10),
    ] {
        let (few, many) = (peak(story, 32), peak(story, 224));
        let each = many.saturating_sub(few) / 192;
        println!("{}: {} kB on 224 CPUs, {} bytes per CPU", story.about().name, many >> 10, each);
        assert!(each <= most, "{}: {each} bytes per CPU", story.about().name);
    }
}
