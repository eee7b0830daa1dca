//! Recorded calls.

use reheap_trace::reader::{Reader, Record};
use reheap_trace::replay::{self, Options};
use reheap_trace::writer::Writer;
use std::collections::HashMap;

/// Splits the input: the kind, two bytes of length, and the payload.
fn trace_of(mut bytes: &[u8]) -> Vec<u8> {
    let writer = Writer::new(Vec::new()).expect("memory can be written");
    let (mut trace, _) = writer.finish().expect("memory can be written");
    trace.truncate(16); // the file's header alone
    while let [kind, low, high, rest @ ..] = bytes {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (payload, rest) = rest.split_at(length);
        let mut head = vec![*kind, 0, 0, 0, 0, 0, 0, 0];
        head.extend_from_slice(&(length as u32).to_le_bytes());
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&head);
        checksum.update(payload);
        trace.extend_from_slice(b"RHch");
        trace.extend_from_slice(&head);
        trace.extend_from_slice(&checksum.finalize().to_le_bytes());
        trace.extend_from_slice(payload);
        bytes = rest;
    }
    trace
}

/// Whatever a trace says, it is read or refused within libFuzzer's limits of time and memory, and so is a plan of it.
///
/// The input is the chunks' kinds and payloads: behind right checksums, which no fuzzer would find.
pub(crate) fn trace(bytes: &[u8]) {
    let trace = trace_of(bytes);
    let reader = Reader::new(&trace[..]).expect("its header is right");
    let mut last = HashMap::new();
    for record in reader {
        if let Ok(Record::Event(stream, event)) = record {
            let before = last.insert(stream, event.nanoseconds);
            assert!(
                before <= Some(event.nanoseconds),
                "time goes back at {event:?}"
            );
        }
    }
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let path = directory.path().join("trace");
    std::fs::write(&path, &trace).expect("a temporary file can be written");
    let plan = tempfile::tempfile().expect("a temporary file can be made");
    let _ = replay::prepare(&path, &Options::default(), plan);
}
