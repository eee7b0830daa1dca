//! The file of a trace, which is read twice: first to see what will become of each block, then to plan.
//!
//! Both readings must see the same events, or the plan makes threads wait for what never comes. But a recorder may still
//! write to the file. So it is opened once, each reading ends where the file ended then, and a checksum tells whether the
//! second read what the first did.

use super::ReplayError;
use crate::TraceError;
use crate::reader::{Ending, Reader, Record};
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// A trace as it was when it was opened.
#[derive(Debug)]
pub(super) struct Source {
    file: File,
    bytes: u64,
    /// Of the first reading.
    checksum: Option<u32>,
}

impl Source {
    pub(super) fn open(trace: &Path) -> Result<Self, ReplayError> {
        // Whoever opens a pipe waits for a writer, unless he asks not to.
        let without_waiting = OFlags::NONBLOCK.bits().cast_signed();
        let file = File::options()
            .read(true)
            .custom_flags(without_waiting)
            .open(trace)
            .map_err(TraceError::Io)?;
        let metadata = file.metadata().map_err(TraceError::Io)?;
        if !metadata.is_file() {
            return Err(ReplayError::NotAFile);
        }
        Ok(Self {
            file,
            bytes: metadata.len(),
            checksum: None,
        })
    }

    /// Gives each record to `look`, and says how the trace ends.
    pub(super) fn read(
        &mut self,
        mut look: impl FnMut(Record) -> Result<(), ReplayError>,
    ) -> Result<Ending, ReplayError> {
        let file = &mut self.file;
        file.seek(SeekFrom::Start(0)).map_err(TraceError::Io)?;
        let mut input = Summed {
            input: file.take(self.bytes),
            checksum: crc32fast::Hasher::new(),
        };
        let mut reader = Reader::new(BufReader::new(&mut input))?;
        for record in &mut reader {
            look(record?)?;
        }
        let ending = reader.ending().unwrap_or(Ending::CutOff { bytes: 0 });
        let checksum = input.checksum.finalize();
        match self.checksum.replace(checksum) {
            Some(first) if first != checksum => Err(ReplayError::Changed),
            _ => Ok(ending),
        }
    }
}

/// Takes the checksum of what is read.
struct Summed<R> {
    input: R,
    checksum: crc32fast::Hasher,
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.input.read(buffer)?;
        self.checksum.update(&buffer[..bytes]);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer::Writer;
    use crate::{Function, Process, RawEvent};
    use std::fs;

    /// A trace in which the process with this number calls malloc so often.
    fn trace(pid: u32, calls: u64) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new()).unwrap();
        let process = Process {
            pid,
            ..Process::default()
        };
        let stream = writer.begin_process(&process).unwrap();
        for block in 1..=calls {
            let call = RawEvent {
                nanoseconds: block * 1000,
                block,
                size: 100,
                alignment: 0,
                function: Function::Malloc as u32,
            };
            writer.push(stream, 0, &[call]);
        }
        writer.end_process(stream, 0).unwrap();
        writer.finish().unwrap().0
    }

    fn records(source: &mut Source) -> Result<(Vec<Record>, Ending), ReplayError> {
        let mut records = Vec::new();
        let ending = source.read(|record| {
            records.push(record);
            Ok(())
        })?;
        Ok((records, ending))
    }

    #[test]
    fn what_a_recorder_writes_meanwhile_is_in_neither_reading() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        let whole = trace(1, 1000);
        let (begun, rest) = whole.split_at(whole.len() - 30);
        fs::write(&path, begun).unwrap();
        let mut source = Source::open(&path).unwrap();
        let first = records(&mut source).unwrap();
        assert!(matches!(first.1, Ending::CutOff { bytes: 1.. }));
        fs::write(&path, [begun, rest].concat()).unwrap();
        assert_eq!(records(&mut source).unwrap(), first);
    }

    #[test]
    fn a_trace_that_is_replaced_in_place_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        fs::write(&path, trace(1, 1000)).unwrap();
        let mut source = Source::open(&path).unwrap();
        records(&mut source).unwrap();
        fs::write(&path, trace(2, 1000)).unwrap();
        let error = records(&mut source).unwrap_err();
        assert!(matches!(error, ReplayError::Changed), "{error}");
    }
}
