//! How far apart CPUs are, in a form that answers for a set of CPUs at once.

use crate::machine::{Distance, Machine};

/// Per CPU: where it belongs, and who else belongs there.
#[derive(Clone, Debug)]
pub(super) struct Near {
    /// Core, cluster and socket of every CPU.
    place: Vec<[u32; 3]>,
    /// CPUs of each core, cluster and socket as bit sets of `words` words, by level and then by number.
    members: [Vec<u64>; 3],
    words: usize,
}

/// Levels from the nearest on, and what lies beyond the last.
const LEVELS: [Distance; 3] = [Distance::Smt, Distance::Cluster, Distance::Socket];

impl Near {
    pub(super) fn new(machine: &Machine, cpus: u32) -> Near {
        let cores = (machine.cpus() / machine.threads_per_core.max(1)).max(1);
        let cluster = machine.cores_per_cluster.max(1);
        let socket = (machine.clusters_per_socket * machine.cores_per_cluster).max(1);
        let words = (cpus as usize).div_ceil(64);
        let place: Vec<[u32; 3]> =
            (0..cpus).map(|c| c % cores).map(|core| [core, core / cluster, core / socket]).collect();
        let members = [0, 1, 2].map(|level: usize| {
            let groups = place.iter().map(|p| p[level] as usize + 1).max().unwrap_or(0);
            let mut sets = vec![0u64; groups * words];
            for (cpu, p) in place.iter().enumerate() {
                sets[p[level] as usize * words + cpu / 64] |= 1 << (cpu % 64);
            }
            sets
        });
        Near { place, members, words }
    }

    /// Socket of a CPU.
    pub(super) fn socket(&self, cpu: u32) -> u32 {
        self.place[cpu as usize][2]
    }

    /// Distance of two CPUs, as [`Machine::distance`] has it.
    pub(super) fn distance(&self, a: u32, b: u32) -> usize {
        let (x, y) = (&self.place[a as usize], &self.place[b as usize]);
        let level = (0..3).find(|&l| x[l] == y[l]);
        match level {
            Some(0) if a == b => Distance::Own as usize,
            Some(l) => LEVELS[l] as usize,
            None => Distance::Cross as usize,
        }
    }

    /// Distance from `cpu` to the nearest or the farthest other CPU of `set`; `None` when there is no other.
    pub(super) fn extreme(&self, set: &[u64], cpu: u32, farthest: bool) -> Option<usize> {
        let own = |i: usize| if i == cpu as usize / 64 { 1u64 << (cpu % 64) } else { 0 };
        if set.iter().enumerate().all(|(i, w)| w & !own(i) == 0) {
            return None;
        }
        let group = |level: usize| {
            let at = self.place[cpu as usize][level] as usize * self.words;
            &self.members[level][at..at + self.words]
        };
        let inside =
            |level: usize| set.iter().zip(group(level)).enumerate().any(|(i, (w, g))| w & g & !own(i) != 0);
        let outside = |level: usize| set.iter().zip(group(level)).any(|(w, g)| w & !g != 0);
        let level = if farthest {
            // The smallest group that holds all of them.
            (0..3).find(|&l| !outside(l))
        } else {
            (0..3).find(|&l| inside(l))
        };
        Some(level.map_or(Distance::Cross as usize, |l| LEVELS[l] as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine;

    #[test]
    fn sets_are_as_far_as_their_members() {
        for name in ["2s-icelake-sp-96", "1s-zen4-32", "4s-westmere-ex-80"] {
            let m = machine::find(name).unwrap();
            let near = Near::new(&m, m.cpus());
            let words = (m.cpus() as usize).div_ceil(64);
            let mut rng = tussle_stats::Rng::new(3);
            for _ in 0..500 {
                let mut set = vec![0u64; words];
                let mut list = Vec::new();
                for _ in 0..rng.below(5) {
                    let c = rng.below(m.cpus() as usize) as u32;
                    set[c as usize / 64] |= 1 << (c % 64);
                    list.push(c);
                }
                let cpu = rng.below(m.cpus() as usize) as u32;
                let others = list.iter().filter(|c| **c != cpu).map(|&c| m.distance(cpu, c) as usize);
                assert_eq!(near.extreme(&set, cpu, true), others.clone().max(), "{name} {cpu} {list:?}");
                assert_eq!(near.extreme(&set, cpu, false), others.min(), "{name} {cpu} {list:?}");
                list.iter().for_each(|&c| assert_eq!(near.distance(cpu, c), m.distance(cpu, c) as usize));
            }
        }
    }
}
