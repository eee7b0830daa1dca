//! Reads a trace, chunk by chunk: it takes the memory of one chunk, however long the recording was.

use super::format::{self, Chunk, FILE_HEADER_BYTES, Found, Kind};
use super::{Event, Process, Stream, Totals, TraceError, columns};
use std::collections::BTreeMap;
use std::io::Read;

/// Something that is in a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A process begins.
    Process(Stream, Process),
    /// It called something. The events of a stream come in the order of their times, those of a thread in the order of
    /// its calls, and each after that which made its block.
    Event(Stream, Event),
    /// It ended, or its recording did.
    End(Stream, Totals),
}

/// How a trace ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It is whole.
    Finished,
    /// The recording was cut off; a chunk of so many bytes was not whole and is left out.
    CutOff {
        /// They are left out; none if the file ends with a whole chunk.
        bytes: u64,
    },
}

/// Reads a trace.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    offset: u64,
    /// The processes that began, with the latest time of each, and whether it ended.
    streams: BTreeMap<u32, (u64, bool)>,
    events: std::vec::IntoIter<Event>,
    stream: Stream,
    ending: Option<Ending>,
}

impl<R: Read> Reader<R> {
    /// Reads what a trace begins with.
    ///
    /// # Errors
    /// When it is not a trace, when another version wrote it, or when it cannot be read.
    pub fn new(mut input: R) -> Result<Self, TraceError> {
        let mut header = [0; FILE_HEADER_BYTES];
        let bytes = format::read_up_to(&mut input, &mut header)?;
        if bytes < FILE_HEADER_BYTES {
            return Err(TraceError::NotATrace);
        }
        format::check_file_header(&header)?;
        Ok(Self {
            input,
            offset: FILE_HEADER_BYTES as u64,
            streams: BTreeMap::new(),
            events: Vec::new().into_iter(),
            stream: Stream(0),
            ending: None,
        })
    }

    /// How it ends; `None` before everything was read.
    pub fn ending(&self) -> Option<Ending> {
        self.ending
    }

    fn read_next(&mut self) -> Result<Option<Record>, TraceError> {
        loop {
            if let Some(event) = self.events.next() {
                return Ok(Some(Record::Event(self.stream, event)));
            }
            if self.ending.is_some() {
                return Ok(None);
            }
            match Chunk::read(&mut self.input, self.offset)? {
                Found::EndOfFile => self.ending = Some(Ending::CutOff { bytes: 0 }),
                Found::CutOff(bytes) => self.ending = Some(Ending::CutOff { bytes }),
                Found::Chunk(chunk) => {
                    let record = self.read_chunk(&chunk).map_err(|what| {
                        let offset = self.offset;
                        TraceError::Damaged { offset, what }
                    })?;
                    self.offset += chunk.bytes();
                    if record.is_some() {
                        return Ok(record);
                    }
                }
            }
        }
    }

    fn read_chunk(&mut self, chunk: &Chunk) -> Result<Option<Record>, &'static str> {
        let stream = Stream(chunk.stream);
        let payload = &chunk.payload;
        match chunk.kind {
            Kind::Process => {
                let process = serde_json::from_slice(payload).map_err(|_| "no process is in it")?;
                if self.streams.insert(chunk.stream, (0, false)).is_some() {
                    return Err("a process begins twice");
                }
                Ok(Some(Record::Process(stream, process)))
            }
            Kind::Events => {
                let events = columns::decode(payload).ok_or("no events are in it")?;
                let (latest, _) = self.running(chunk.stream)?;
                if events.first().is_some_and(|e| e.nanoseconds < *latest) {
                    return Err("it is from before the chunk before it");
                }
                *latest = events.last().map_or(*latest, |event| event.nanoseconds);
                self.events = events.into_iter();
                self.stream = stream;
                Ok(None)
            }
            Kind::End => {
                let totals = serde_json::from_slice(payload).map_err(|_| "no totals are in it")?;
                self.running(chunk.stream)?.1 = true;
                Ok(Some(Record::End(stream, totals)))
            }
            Kind::Finished => {
                let mut byte = [0];
                match format::read_up_to(&mut self.input, &mut byte) {
                    Ok(0) => {}
                    _ => return Err("something follows its end"),
                }
                self.ending = Some(Ending::Finished);
                Ok(None)
            }
        }
    }

    /// A process that began and did not end.
    fn running(&mut self, stream: u32) -> Result<&mut (u64, bool), &'static str> {
        match self.streams.get_mut(&stream) {
            Some(known) if !known.1 => Ok(known),
            Some(_) => Err("a process goes on after its end"),
            None => Err("its process did not begin"),
        }
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Record, TraceError>;

    /// After an error, the trace is at its end.
    fn next(&mut self) -> Option<Self::Item> {
        match self.read_next() {
            Ok(record) => record.map(Ok),
            Err(error) => {
                self.events = Vec::new().into_iter();
                self.ending = Some(Ending::CutOff { bytes: 0 });
                Some(Err(error))
            }
        }
    }
}
