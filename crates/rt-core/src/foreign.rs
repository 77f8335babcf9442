// Memory that others than the program's threads write, told by the names of mappings. Included by runtime and reader.

/// What the kernel writes down about mappings that it or a device writes, as their names begin (Linux 4.x to 6.x).
const WRITERS: [(&[u8], &str); 7] = [
    (b"anon_inode:[io_uring]", "io_uring"),
    (b"/[aio]", "asynchronous input and output (io_setup)"),
    (b"anon_inode:[perf_event]", "perf events"),
    (b"socket:[", "a ring of a packet socket"),
    (b"anon_inode:kvm", "a virtual machine"),
    (b"/dmabuf:", "a device's buffer"),
    (b"/dev/", "a device"),
];

/// Files below `/dev/` that are ordinary memory.
const MEMORY: [&[u8]; 4] = [b"/dev/zero", b"/dev/shm/", b"/dev/hugepages", b"/dev/null"];

/// Who else writes to the mapping that this line of `/proc/PID/maps` describes; `None` if nobody is known to.
pub fn writer(line: &[u8]) -> Option<&'static str> {
    const FIELDS_BEFORE_NAME: usize = 5;
    let mut words = line.split(|b| *b == b' ').filter(|w| !w.is_empty());
    let name = words.nth(FIELDS_BEFORE_NAME)?;
    if MEMORY.iter().any(|m| name.starts_with(m)) {
        return None;
    }
    WRITERS.iter().find(|(begins, _)| name.starts_with(begins)).map(|(_, who)| *who)
}
