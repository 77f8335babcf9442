//! The container: header, attributes, features, and the walk over records.

use crate::attr::{Attr, bit};
use crate::bytes::Bytes;
use crate::error::{Error, Problem};
use crate::record::{Mmap, Record, comm, fork, kind, mmap, walk};
use crate::sample::{Sample, id_of};
use std::collections::HashMap;

const MAGIC: [u8; 8] = *b"PERFILE2";
const PIPE_HEADER: u64 = 16;

/// Features read (`HEADER_*` of tools/perf/util/header.h).
mod feature {
    pub const ARCH: u32 = 6;
    pub const NRCPUS: u32 = 7;
    pub const CPUDESC: u32 = 8;
    pub const CMDLINE: u32 = 11;
    pub const EVENT_DESC: u32 = 12;
    pub const COUNT: u32 = 256;
}

/// What receives the content of a file.
pub trait Visitor {
    /// A file was mapped.
    fn mmap(&mut self, _map: Mmap) {}
    /// A thread got a name.
    fn comm(&mut self, _pid: u32, _tid: u32, _name: String) {}
    /// A process was started by another.
    fn fork(&mut self, _pid: u32, _parent: u32) {}
    /// All mappings, names and forks have been told; samples come next.
    fn mapped(&mut self) {}
    /// A sample of event number `event` in [`PerfFile::attrs`].
    fn sample(&mut self, event: usize, attr: &Attr, sample: &Sample, misc: u16);
    /// So many records were lost while recording.
    fn lost(&mut self, _count: u64) {}
}

/// A perf.data file, header read.
#[derive(Debug)]
pub struct PerfFile<'a> {
    data: &'a [u8],
    /// Start of the data section in the file and its length.
    section: (u64, u64),
    swap: bool,
    /// Events.
    pub attrs: Vec<Attr>,
    /// Command line of the recording.
    pub command: Vec<String>,
    /// `x86_64`, ...
    pub arch: Option<String>,
    /// CPU model.
    pub cpu_model: Option<String>,
    /// CPUs online.
    pub cpus: Option<u32>,
    /// What was passed over.
    pub problems: Vec<Problem>,
}

impl<'a> PerfFile<'a> {
    /// Reads the header, its attributes and features.
    pub fn open(data: &'a [u8]) -> Result<PerfFile<'a>, Error> {
        let magic = data.get(..8).unwrap_or(data);
        let swap = match <[u8; 8]>::try_from(magic) {
            Ok(m) if m == MAGIC => false,
            Ok(mut m) => {
                m.reverse();
                if m != MAGIC {
                    return Err(Error::Magic { found: magic.to_vec() });
                }
                true
            }
            Err(_) => return Err(Error::Magic { found: magic.to_vec() }),
        };
        let cut = |offset: u64| Error::Truncated { section: "header", offset };
        let mut b = Bytes::new(data, swap);
        let header_size = b.skip(8).and_then(|_| b.u64()).ok_or(cut(8))?;
        let mut file = PerfFile {
            data,
            section: (PIPE_HEADER, (data.len() as u64).saturating_sub(PIPE_HEADER)),
            swap,
            attrs: Vec::new(),
            command: Vec::new(),
            arch: None,
            cpu_model: None,
            cpus: None,
            problems: Vec::new(),
        };
        if header_size > PIPE_HEADER {
            file.read_header(&mut b)?;
        } else {
            file.read_pipe_attrs();
        }
        if file.attrs.is_empty() { Err(Error::NoAttributes) } else { Ok(file) }
    }

    fn read_header(&mut self, b: &mut Bytes<'a>) -> Result<(), Error> {
        let cut = Error::Truncated { section: "header", offset: self.data.len() as u64 };
        let mut word = || b.u64().ok_or(cut.clone());
        let attr_size = word()?;
        let attrs = (word()?, word()?);
        let data = (word()?, word()?);
        let _event_types = (word()?, word()?);
        let features = [word()?, word()?, word()?, word()?];
        let available = (self.data.len() as u64).saturating_sub(data.0);
        self.section = (data.0, data.1.min(available));
        if data.1 > available {
            let message = format!("data section says {} bytes, {available} are there", data.1);
            self.problems.push(Problem { offset: data.0, message });
        }
        // A recorder that was killed leaves a length of zero: everything behind the header is data then.
        if data.1 == 0 {
            self.section.1 = available;
            self.problems.push(Problem { offset: data.0, message: "the recording was cut off".into() });
        }
        self.read_attrs(attr_size, attrs);
        self.read_features(data.0.saturating_add(data.1), features);
        Ok(())
    }

    /// Bytes of a section, as many of them as there are.
    fn slice(&self, offset: u64, size: u64) -> &'a [u8] {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.data.len());
        let end = start.saturating_add(usize::try_from(size).unwrap_or(usize::MAX)).min(self.data.len());
        &self.data[start..end]
    }

    fn read_attrs(&mut self, attr_size: u64, section: (u64, u64)) {
        let entry = usize::try_from(attr_size).unwrap_or(0);
        if entry < 64 + 16 {
            self.problems
                .push(Problem { offset: section.0, message: format!("attributes of {attr_size} bytes") });
            return;
        }
        for raw in self.slice(section.0, section.1).chunks_exact(entry) {
            let (body, ids) = raw.split_at(entry - 16);
            let mut b = Bytes::new(ids, self.swap);
            let (Some(at), Some(size)) = (b.u64(), b.u64()) else { continue };
            if let Some(mut attr) = Attr::read(body, self.swap) {
                attr.ids = read_ids(self.slice(at, size), self.swap);
                self.attrs.push(attr);
            }
        }
    }

    fn read_pipe_attrs(&mut self) {
        let (mut attrs, swap) = (Vec::new(), self.swap);
        let (data, base) = (self.slice(self.section.0, self.section.1), self.section.0);
        let mut features = Vec::new();
        walk(data, swap, base, &mut Vec::new(), &mut |r, _| match r.kind {
            kind::HEADER_ATTR => {
                let size =
                    Bytes::new(r.payload.get(4..).unwrap_or_default(), swap).u32().unwrap_or(64) as usize;
                let size = size.clamp(64, r.payload.len().max(64));
                if let Some(mut attr) = Attr::read(r.payload, swap) {
                    attr.ids = read_ids(r.payload.get(size..).unwrap_or_default(), swap);
                    attrs.push(attr);
                }
            }
            kind::HEADER_FEATURE => {
                let id = Bytes::new(r.payload, swap).u64().unwrap_or(u64::MAX);
                let body = r.payload.get(8..).unwrap_or_default().to_vec();
                features.push((u32::try_from(id).unwrap_or(u32::MAX), body));
            }
            _ => {}
        });
        self.attrs = attrs;
        for (id, body) in features {
            self.feature(id, &body);
        }
    }

    fn read_features(&mut self, at: u64, bits: [u64; 4]) {
        let present: Vec<u32> =
            (0..feature::COUNT).filter(|i| bits[*i as usize / 64] & (1 << (i % 64)) != 0).collect();
        let mut b = Bytes::new(self.slice(at, present.len() as u64 * 16), self.swap);
        for id in present {
            let (Some(offset), Some(size)) = (b.u64(), b.u64()) else { break };
            let body = self.slice(offset, size);
            self.feature(id, body);
        }
    }

    fn feature(&mut self, id: u32, body: &[u8]) {
        let mut b = Bytes::new(body, self.swap);
        let swap = self.swap;
        let text = |b: &mut Bytes<'_>| b.u32().and_then(|n| b.text(n as usize));
        match id {
            feature::ARCH => self.arch = text(&mut b),
            feature::CPUDESC => self.cpu_model = text(&mut b),
            feature::NRCPUS => self.cpus = b.u32(),
            feature::CMDLINE => {
                let count = b.u32().unwrap_or(0).min(4096);
                self.command = (0..count).map_while(|_| text(&mut b)).collect();
            }
            feature::EVENT_DESC => self.event_names(body, swap),
            _ => {}
        }
    }

    /// Number of events, size of an attribute, then per event: attribute, number of ids, name, ids.
    fn event_names(&mut self, body: &[u8], swap: bool) {
        let mut b = Bytes::new(body, swap);
        let (Some(count), Some(size)) = (b.u32(), b.u32()) else { return };
        for i in 0..count.min(4096) as usize {
            let Some(()) = b.skip(size as usize) else { return };
            let (Some(ids), Some(len)) = (b.u32(), b.u32()) else { return };
            let Some(name) = b.text(len as usize) else { return };
            let Some(()) = b.skip(ids as usize * 8) else { return };
            if let Some(attr) = self.attrs.get_mut(i) {
                attr.name = Some(name);
            }
        }
    }

    /// Bytes of the data section.
    pub fn data_bytes(&self) -> u64 {
        self.section.1
    }

    /// Walks all records twice: first what is mapped and named, then the samples, so that a sample finds its mapping
    /// whatever the order of the ring buffers in the file.
    pub fn visit(&mut self, visitor: &mut dyn Visitor) {
        let (data, base, swap) = (self.slice(self.section.0, self.section.1), self.section.0, self.swap);
        let mut problems = std::mem::take(&mut self.problems);
        let attrs = &self.attrs;
        walk(data, swap, base, &mut Vec::new(), &mut |r, _| match r.kind {
            kind::MMAP | kind::MMAP2 => mmap(&r, swap).into_iter().for_each(|m| visitor.mmap(m)),
            kind::COMM => comm(&r, swap).into_iter().for_each(|(p, t, n)| visitor.comm(p, t, n)),
            kind::FORK => fork(&r, swap).into_iter().for_each(|(p, parent)| visitor.fork(p, parent)),
            _ => {}
        });
        visitor.mapped();
        let events = Events::new(attrs);
        let mut short = 0u64;
        walk(data, swap, base, &mut problems, &mut |r, _| match r.kind {
            kind::SAMPLE => match events.decode(&r, swap) {
                Some((event, sample)) => visitor.sample(event, &attrs[event], &sample, r.misc),
                None => short += 1,
            },
            kind::LOST => {
                let mut b = Bytes::new(r.payload, swap);
                visitor.lost(b.u64().and_then(|_| b.u64()).unwrap_or(0));
            }
            kind::LOST_SAMPLES => visitor.lost(Bytes::new(r.payload, swap).u64().unwrap_or(0)),
            _ => {}
        });
        if short > 0 {
            problems.push(Problem {
                offset: base,
                message: format!("{short} samples do not fit their event's format"),
            });
        }
        self.problems = problems;
    }
}

fn read_ids(raw: &[u8], swap: bool) -> Vec<u64> {
    raw.chunks_exact(8).filter_map(|c| Bytes::new(c, swap).u64()).collect()
}

/// Finds a sample's event.
struct Events<'a> {
    attrs: &'a [Attr],
    by_id: HashMap<u64, usize>,
    /// All events place the id alike, or there is only one.
    sample_type: u64,
}

impl<'a> Events<'a> {
    fn new(attrs: &'a [Attr]) -> Events<'a> {
        let by_id =
            attrs.iter().enumerate().flat_map(|(i, a)| a.ids.iter().map(move |id| (*id, i))).collect();
        Events { attrs, by_id, sample_type: attrs.first().map_or(0, |a| a.sample_type) }
    }

    fn decode(&self, record: &Record<'_>, swap: bool) -> Option<(usize, Sample)> {
        let event = match self.attrs {
            [_] => 0,
            _ if self.sample_type & (bit::IDENTIFIER | bit::ID) == 0 => 0,
            _ => *self.by_id.get(&id_of(record.payload, self.sample_type, swap)?)?,
        };
        Some((event, Sample::read(record.payload, &self.attrs[event], swap)?))
    }
}
