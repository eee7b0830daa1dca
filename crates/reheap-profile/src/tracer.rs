//! Writes a trace while the program runs, in a thread of its own: what the threads of all processes put into their rings.

use crate::recording::{Place, Recording};
use reheap_trace::ring::Clock;
use reheap_trace::writer::{Writer, Written};
use reheap_trace::{Process, RawEvent, Stream, TraceError};
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long to wait when there was nothing in any ring.
const PAUSE: Duration = Duration::from_micros(200);
/// How much of a trace is lost at most when reheap is killed.
const BETWEEN_FLUSHES: Duration = Duration::from_secs(1);

/// The thread that writes.
#[derive(Debug)]
pub(crate) struct Tracer {
    /// Processes that have ended; the answer is that their rings are empty.
    ends: Sender<(Place, Sender<()>)>,
    thread: JoinHandle<Result<Written, TraceError>>,
}

impl Tracer {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn start(recording: Arc<Recording>, clock: Clock, file: File) -> io::Result<Self> {
        let (ends, ended) = mpsc::channel();
        let write = move || {
            let written =
                Writing::new(&recording, clock, file).and_then(|w| w.until_the_end(&ended));
            if written.is_err() {
                recording.trace().end(); // no thread waits for room in its ring any more
            }
            written
        };
        let thread = thread::Builder::new().spawn(write)?;
        Ok(Self { ends, thread })
    }

    /// Takes the last calls of a process that has ended, and gives its place away; whether it did.
    pub(crate) fn end(&self, place: Place) -> bool {
        let (done, wait) = mpsc::channel();
        // Where the file could not be written there is no thread, and nothing to wait for.
        self.ends.send((place, done)).is_ok() && wait.recv().is_ok()
    }

    /// What was written.
    ///
    /// # Errors
    /// When the file could not be written.
    pub(crate) fn finish(self) -> Result<Written, TraceError> {
        drop(self.ends);
        let written = self.thread.join();
        written.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

struct Writing<'a> {
    recording: &'a Recording,
    clock: Clock,
    writer: Writer<BufWriter<File>>,
    streams: HashMap<Place, Stream>,
    /// How often a process had written over a ring.
    garbled: HashMap<Place, u64>,
    /// How many rings had been given up when a process ended last.
    given_up: u64,
    /// Places that could not be given away, so nobody writes there any more.
    lost: HashSet<Place>,
    events: Vec<RawEvent>,
}

impl<'a> Writing<'a> {
    fn new(recording: &'a Recording, clock: Clock, file: File) -> Result<Self, TraceError> {
        Ok(Self {
            recording,
            clock,
            writer: Writer::new(BufWriter::new(file))?,
            streams: HashMap::new(),
            garbled: HashMap::new(),
            given_up: 0,
            lost: HashSet::new(),
            events: Vec::new(),
        })
    }

    fn until_the_end(
        mut self,
        ended: &Receiver<(Place, Sender<()>)>,
    ) -> Result<Written, TraceError> {
        let mut flushed = Instant::now();
        loop {
            self.recording.trace().beat();
            let mut taken = 0;
            for place in self.recording.taken() {
                if !self.lost.contains(&place) {
                    taken += self.take(place)?;
                }
            }
            match ended.try_recv() {
                Ok((place, done)) => {
                    self.end(place)?;
                    // Nobody waits if the command was given up.
                    let _ = done.send(());
                    continue;
                }
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) => {}
            }
            if flushed.elapsed() > BETWEEN_FLUSHES {
                self.writer.flush()?;
                flushed = Instant::now();
            }
            if taken == 0 {
                std::thread::sleep(PAUSE);
            }
        }
        self.recording.trace().end();
        Ok(self.writer.finish()?.1)
    }

    /// Empties the rings of a process; how many calls were in them.
    fn take(&mut self, place: Place) -> Result<usize, TraceError> {
        let stream = match self.streams.get(&place) {
            Some(stream) => *stream,
            None => self.begin(place)?,
        };
        let now = self.clock.now();
        let mut taken = 0;
        for (thread, ring) in self.recording.trace_rings(place) {
            self.events.clear();
            if ring.drain(&self.clock, &mut self.events).is_err() {
                *self.garbled.entry(place).or_default() += 1;
            } else if !self.events.is_empty() {
                taken += self.events.len();
                self.writer.push(stream, thread, &self.events);
            }
        }
        self.writer.advance(stream, now)?;
        Ok(taken)
    }

    fn begin(&mut self, place: Place) -> Result<Stream, TraceError> {
        let pid = self.recording.pid(place);
        let words = if self.recording.is_mapped_by(pid) {
            fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()
        } else {
            Vec::new()
        };
        let words = words.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        let mut command: Vec<String> = words.map(|word| word.into_owned()).collect();
        command.pop(); // each word ends with a zero
        if command.is_empty() {
            command.push(self.recording.program(place).display().to_string());
        }
        let stream = self.writer.begin_process(&Process {
            pid,
            parent: self.recording.forked_by(place),
            command,
            began_nanoseconds: self.clock.now(),
        })?;
        self.streams.insert(place, stream);
        Ok(stream)
    }

    /// This thread gives the place away itself. If another did, this one could meet it before that, and begin the process a
    /// second time; or after it, and take the next process for the one that ended: one that is executed keeps the number.
    fn end(&mut self, place: Place) -> Result<(), TraceError> {
        self.take(place)?;
        let missing = self.missing(place);
        if self.recording.release(place).is_err() {
            self.lost.insert(place);
        }
        match self.streams.remove(&place) {
            Some(stream) => self.writer.end_process(stream, missing),
            None => Ok(()),
        }
    }

    /// How many calls of a process are missing at least. One that writes over rings writes over their numbers as well.
    fn missing(&mut self, place: Place) -> u64 {
        let rings = self.recording.trace_rings(place);
        let counted: u64 = rings.map(|(_, ring)| ring.lost()).sum();
        let garbled = self.garbled.remove(&place).unwrap_or(0);
        let given_up = self.recording.trace().given_up();
        let new = given_up.saturating_sub(std::mem::replace(&mut self.given_up, given_up));
        counted.max(garbled).max(new.min(1))
    }
}
