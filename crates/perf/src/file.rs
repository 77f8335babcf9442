//! The container: header, attributes, features, and the walk over records.

use crate::attr::{Attr, bit};
use crate::bytes::Bytes;
use crate::error::{Error, Skipped};
use crate::input::{Input, section};
use crate::record::{Comm, Fork, Ksymbol, Mmap, Record, comm, fork, kind, ksymbol, mmap, time_of};
use crate::sample::{Sample, id_of};
use crate::stream::walk;
use std::collections::HashMap;

const MAGIC: [u8; 8] = *b"PERFILE2";
const PIPE_HEADER: u64 = 16;

/// In a pipe, descriptions of events and machine come first: they are looked for in so many bytes.
const PIPE_DESCRIPTION_MAX: u64 = 16 << 20;

/// Bytes read of attributes, their ids, or one feature at most.
const SECTION_MAX: usize = 16 << 20;

/// Features read (`HEADER_*` of tools/perf/util/header.h).
mod feature {
    pub const BUILD_ID: u32 = 2;
    pub const ARCH: u32 = 6;
    pub const NRCPUS: u32 = 7;
    pub const CPUDESC: u32 = 8;
    pub const CMDLINE: u32 = 11;
    pub const EVENT_DESC: u32 = 12;
    pub const COUNT: u32 = 256;
}

/// What receives the content of a file, in the order of the file: mappings may come behind samples that need them.
pub trait Visitor {
    /// A file was mapped.
    fn mmap(&mut self, _map: Mmap) {}
    /// A thread got a name.
    fn comm(&mut self, _comm: Comm) {}
    /// A process was started by another.
    fn fork(&mut self, _fork: Fork) {}
    /// A mapped file's build-id, in recordings through a pipe.
    fn build_id(&mut self, _path: String, _id: Vec<u8>) {}
    /// The kernel made or dropped code.
    fn ksymbol(&mut self, _symbol: Ksymbol) {}
    /// A sample of event number `event` in [`PerfFile::attrs`]; `misc` of its record.
    fn sample(&mut self, event: usize, attr: &Attr, sample: &Sample<'_>, misc: u16);
    /// So many records were lost while recording.
    fn lost(&mut self, _count: u64) {}
}

/// A perf.data file, header read.
pub struct PerfFile<'a> {
    input: &'a dyn Input,
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
    /// Build-id by path, from the file's own list.
    pub build_ids: Vec<(String, Vec<u8>)>,
    /// What was passed over.
    pub problems: Vec<Skipped>,
}

impl std::fmt::Debug for PerfFile<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PerfFile {{ section: {:?}, attrs: {:?} }}", self.section, self.attrs)
    }
}

impl<'a> PerfFile<'a> {
    /// Reads the header, its attributes and features.
    ///
    /// # Errors
    /// [`Error`] when the file is not perf.data, or when nothing says what its samples contain.
    pub fn open(input: &'a dyn Input) -> Result<PerfFile<'a>, Error> {
        let head = section(input, 0, 16, 16);
        let magic = head.get(..8).unwrap_or(&head);
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
        let header_size = Bytes::new(head.get(8..).unwrap_or_default(), swap).u64().ok_or(cut(8))?;
        let mut file = PerfFile {
            input,
            section: (PIPE_HEADER, input.size().saturating_sub(PIPE_HEADER)),
            swap,
            attrs: Vec::new(),
            command: Vec::new(),
            arch: None,
            cpu_model: None,
            cpus: None,
            build_ids: Vec::new(),
            problems: Vec::new(),
        };
        if header_size > PIPE_HEADER {
            file.read_header()?;
        } else {
            file.read_pipe_attrs();
        }
        if file.attrs.is_empty() { Err(Error::NoAttributes) } else { Ok(file) }
    }

    fn read_header(&mut self) -> Result<(), Error> {
        let header = self.slice(PIPE_HEADER, 88);
        let mut b = Bytes::new(&header, self.swap);
        let cut = Error::Truncated { section: "header", offset: self.input.size() };
        let mut word = || b.u64().ok_or(cut.clone());
        let attr_size = word()?;
        let attrs = (word()?, word()?);
        let data = (word()?, word()?);
        let _event_types = (word()?, word()?);
        let features = [word()?, word()?, word()?, word()?];
        let available = self.input.size().saturating_sub(data.0);
        self.section = (data.0, data.1.min(available));
        if data.1 > available {
            let message = format!("data section says {} bytes, {available} are there", data.1);
            self.problems.push(Skipped { offset: data.0, message });
        }
        // A recorder that was killed leaves a length of zero: everything behind the header is data then.
        if data.1 == 0 {
            self.section.1 = available;
            self.problems.push(Skipped { offset: data.0, message: "the recording was cut off".into() });
        }
        self.read_attrs(attr_size, attrs);
        self.read_features(data.0.saturating_add(data.1), features);
        Ok(())
    }

    /// Bytes of a section, as many of them as there are.
    fn slice(&self, offset: u64, size: u64) -> Vec<u8> {
        section(self.input, offset, size, SECTION_MAX)
    }

    fn read_attrs(&mut self, attr_size: u64, section: (u64, u64)) {
        let entry = usize::try_from(attr_size).unwrap_or(0);
        if entry < 64 + 16 {
            self.problems
                .push(Skipped { offset: section.0, message: format!("attributes of {attr_size} bytes") });
            return;
        }
        if section.0.saturating_add(section.1) > self.input.size() {
            let message = "event attributes are cut off".into();
            self.problems.push(Skipped { offset: section.0, message });
        }
        let mut ids_left = SECTION_MAX as u64;
        for raw in self.slice(section.0, section.1).chunks_exact(entry) {
            let (body, ids) = raw.split_at(entry - 16);
            let mut b = Bytes::new(ids, self.swap);
            let (Some(at), Some(size)) = (b.u64(), b.u64()) else { continue };
            if let Some(mut attr) = Attr::read(body, self.swap) {
                let size = size.min(ids_left);
                ids_left -= size;
                attr.ids = read_ids(&self.slice(at, size), self.swap);
                self.attrs.push(attr);
            }
        }
    }

    fn read_pipe_attrs(&mut self) {
        let (mut attrs, swap) = (Vec::new(), self.swap);
        // What describes the events comes before the samples.
        let end = self.section.0.saturating_add(self.section.1).min(PIPE_DESCRIPTION_MAX);
        let mut features = Vec::new();
        walk(self.input, (self.section.0, end), swap, &mut Vec::new(), &mut |r, _| match r.kind {
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
        let table = self.slice(at, present.len() as u64 * 16);
        let mut b = Bytes::new(&table, self.swap);
        let (mut cut, mut left) = (0, SECTION_MAX as u64);
        for id in present {
            let (Some(offset), Some(size)) = (b.u64(), b.u64()) else {
                cut += 1;
                continue;
            };
            cut += u32::from(offset.saturating_add(size) > self.input.size());
            let size = size.min(left);
            left -= size;
            let body = self.slice(offset, size);
            self.feature(id, &body);
        }
        if cut > 0 {
            let message = format!("{cut} header features are cut off");
            self.problems.push(Skipped { offset: at, message });
        }
    }

    fn feature(&mut self, id: u32, body: &[u8]) {
        let mut b = Bytes::new(body, self.swap);
        let swap = self.swap;
        let text = |b: &mut Bytes<'_>| b.u32().and_then(|n| b.text(n as usize));
        match id {
            feature::BUILD_ID => self.build_ids = build_ids(body, swap),
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

    /// Walks the records of this file, then those of `more`: the `data.N` files of a recording in a folder, which
    /// have no headers of their own.
    pub fn visit(&mut self, more: &[&dyn Input], visitor: &mut dyn Visitor) {
        let mut problems = std::mem::take(&mut self.problems);
        let end = self.section.0.saturating_add(self.section.1);
        let mut short = self.visit_one(self.input, (self.section.0, end), &mut problems, visitor);
        for input in more {
            short += self.visit_one(*input, (0, input.size()), &mut problems, visitor);
        }
        if short > 0 {
            let message = format!("{short} samples do not fit their event's format");
            problems.push(Skipped { offset: self.section.0, message });
        }
        self.problems = problems;
    }

    /// Returns the number of samples that could not be decoded.
    fn visit_one(
        &self,
        input: &dyn Input,
        range: (u64, u64),
        problems: &mut Vec<Skipped>,
        visitor: &mut dyn Visitor,
    ) -> u64 {
        let (swap, attrs) = (self.swap, &self.attrs);
        let trailer = attrs.first().filter(|a| a.sample_id_all()).map_or(0, |a| a.sample_type);
        let time = |r: &Record<'_>| time_of(r.payload, trailer, swap);
        let events = Events::new(attrs);
        let mut short = 0u64;
        walk(input, range, swap, problems, &mut |r, _| match r.kind {
            kind::SAMPLE => match events.decode(&r, swap) {
                Some((event, sample)) => visitor.sample(event, &attrs[event], &sample, r.misc),
                None => short += 1,
            },
            kind::MMAP | kind::MMAP2 => {
                mmap(&r, swap).into_iter().for_each(|m| visitor.mmap(Mmap { time_ns: time(&r), ..m }));
            }
            kind::COMM => {
                comm(&r, swap).into_iter().for_each(|c| visitor.comm(Comm { time_ns: time(&r), ..c }));
            }
            kind::FORK => {
                fork(&r, swap).into_iter().for_each(|f| visitor.fork(Fork { time_ns: time(&r), ..f }));
            }
            kind::HEADER_BUILD_ID => {
                build_id(r.payload, swap).into_iter().for_each(|(path, id)| visitor.build_id(path, id));
            }
            kind::KSYMBOL => ksymbol(&r, swap).into_iter().for_each(|k| visitor.ksymbol(k)),
            kind::LOST => {
                let mut b = Bytes::new(r.payload, swap);
                visitor.lost(b.u64().and_then(|_| b.u64()).unwrap_or(0));
            }
            kind::LOST_SAMPLES => visitor.lost(Bytes::new(r.payload, swap).u64().unwrap_or(0)),
            _ => {}
        });
        short
    }
}

/// Records of the build-id feature.
fn build_ids(body: &[u8], swap: bool) -> Vec<(String, Vec<u8>)> {
    let mut out = Vec::new();
    let mut rest = body;
    while let Some(size) = rest.get(6..8).and_then(|b| Bytes::new(b, swap).u16()) {
        let size = usize::from(size);
        let Some(payload) = rest.get(8..size) else { break };
        out.extend(build_id(payload, swap));
        rest = &rest[size..];
    }
    out
}

/// Process, 20 bytes and their number, path.
fn build_id(payload: &[u8], swap: bool) -> Option<(String, Vec<u8>)> {
    let mut b = Bytes::new(payload, swap);
    b.skip(4)?;
    let id = b.take(24)?;
    // Files before Linux 5.12 do not tell the number; ids of ELF files have 20 bytes then.
    let n = if id[20] == 0 { 20 } else { usize::from(id[20]).min(20) };
    Some((b.text_rest(), id[..n].to_vec()))
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

    fn decode<'r>(&self, record: &Record<'r>, swap: bool) -> Option<(usize, Sample<'r>)> {
        let event = match self.attrs {
            [_] => 0,
            _ if self.sample_type & (bit::IDENTIFIER | bit::ID) == 0 => 0,
            _ => *self.by_id.get(&id_of(record.payload, self.sample_type, swap)?)?,
        };
        Some((event, Sample::read(record.payload, &self.attrs[event], swap)?))
    }
}
