//! Lives of slab objects: what the plugin saw of allocations and frees between the markers.

use std::collections::HashMap;

use crate::stream::Stream;

/// One life of a slot, from the moment it was freed to the moment it is freed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First byte of the object.
    pub object: u64,
    /// Bytes of the slot.
    pub bytes: u32,
    /// Accesses of all vCPUs before it began.
    pub from: u64,
    /// Before it was allocated; `None` while it is free.
    pub allocated: Option<u64>,
    /// Before the next life began.
    pub to: Option<u64>,
    /// vCPU that allocated it.
    pub vcpu: Option<u16>,
}

/// All lives that began between the markers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lives {
    by_number: HashMap<u32, Span>,
    /// End of the lives that had begun before the start marker, by object.
    first_end: HashMap<u64, u64>,
}

impl Lives {
    /// Orders what the stream says.
    pub fn read(stream: &Stream) -> Lives {
        let mut out = Lives::default();
        let mut last: HashMap<u64, u32> = HashMap::new();
        for l in &stream.lives {
            let span = out.by_number.entry(l.number).or_insert(Span {
                object: l.object,
                bytes: l.bytes,
                from: l.accesses,
                allocated: None,
                to: None,
                vcpu: None,
            });
            if l.allocated {
                (span.allocated, span.vcpu) = (Some(l.accesses), Some(l.vcpu));
            }
            match last.insert(l.object, l.number) {
                None => _ = out.first_end.entry(l.object).or_insert(l.accesses),
                Some(before) if before != l.number => {
                    if let Some(b) = out.by_number.get_mut(&before) {
                        b.to = Some(l.accesses);
                    }
                }
                Some(_) => {}
            }
        }
        out
    }

    /// The numbered life; `None` for 0 and what the stream does not name.
    pub fn get(&self, number: u32) -> Option<&Span> {
        self.by_number.get(&number)
    }

    /// When the life ended that had begun before the start marker; `None` when it did not.
    pub fn first_end(&self, object: u64) -> Option<u64> {
        self.first_end.get(&object).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Life;

    #[test]
    fn a_slot_lives_several_times() {
        let life = |object, accesses, number, allocated| Life {
            object,
            accesses,
            number,
            bytes: 64,
            allocated,
            vcpu: 1,
        };
        let lives = vec![
            life(0x1000, 10, 1, false),
            life(0x1000, 20, 1, true),
            life(0x2000, 25, 2, true),
            life(0x1000, 30, 3, false),
        ];
        let lives = Lives::read(&Stream { lives, ..Stream::default() });
        let span = |n| lives.get(n).map(|s| (s.object, s.from, s.allocated, s.to)).unwrap();
        assert_eq!(span(1), (0x1000, 10, Some(20), Some(30)));
        assert_eq!(span(2), (0x2000, 25, Some(25), None));
        assert_eq!(span(3), (0x1000, 30, None, None), "free at the end");
        assert_eq!((lives.first_end(0x1000), lives.first_end(0x3000)), (Some(10), None));
        assert_eq!(lives.get(0), None);
    }
}
