//! A command that runs: its output is taken in, its memory looked at, and in the end nothing of it is left.
//!
//! All in one thread that sleeps in `poll`. A thread for each output and one for the samples would be easier to write,
//! but they would take processors from what is measured.

use crate::output::{OnLine, Output, Recorder, Source};
use crate::resident::Resident;
use crate::sys::Report;
use reheap_proc::tree::signal_descendants;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{Pid, Signal};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// A larger pipe wakes the reader less often; it is what the kernel allows without privileges.
const PIPE_BYTES: usize = 1024 * 1024;
const PIECE_BYTES: usize = 256 * 1024;
/// How long flags of other threads may go unseen.
const NAP: Duration = Duration::from_millis(50);
/// How often processes that were killed are killed again, because some may have started in the meantime.
const KILL_AGAIN: Duration = Duration::from_millis(5);
/// The kernel may take a while to give back the memory of a process, but not that long.
const KILL_FOR: Duration = Duration::from_secs(10);

/// A command, and the launcher above it. If it is dropped, both are ended without further ado.
pub(crate) struct Running<'a> {
    launcher: Child,
    /// None when the launcher has ended.
    report_pipe: Option<File>,
    report: Vec<u8>,
    ended: Option<Instant>,
    stdout: Stream,
    stderr: Stream,
    resident: Resident,
    on_line: Option<&'a mut OnLine<'a>>,
    piece: Vec<u8>,
}

/// A command of which nothing runs any more, and what it left.
pub(crate) struct Ended {
    /// None if the launcher did not get to write one.
    pub(crate) report: Option<Report>,
    pub(crate) launcher: ExitStatus,
    pub(crate) mean_rss_bytes: Option<u64>,
    pub(crate) stdout: Output,
    pub(crate) stderr: Output,
}

impl<'a> Running<'a> {
    /// Takes over a launcher that was just started, with its outputs and its report in pipes.
    pub(crate) fn new(
        mut launcher: Child,
        report: OwnedFd,
        on_line: Option<&'a mut OnLine<'a>>,
    ) -> io::Result<Running<'a>> {
        let stdout = launcher.stdout.take().map(OwnedFd::from);
        let stderr = launcher.stderr.take().map(OwnedFd::from);
        let running = Running {
            launcher,
            report_pipe: Some(File::from(report)),
            report: Vec::new(),
            ended: None,
            stdout: Stream::new(Source::Stdout, stdout),
            stderr: Stream::new(Source::Stderr, stderr),
            resident: Resident::new(Instant::now()),
            on_line,
            piece: vec![0; PIECE_BYTES],
        };
        for pipe in [&running.stdout.pipe, &running.stderr.pipe]
            .into_iter()
            .flatten()
        {
            fcntl_setfl(pipe, OFlags::NONBLOCK)?;
            // Refused to users who have many pipes already; then it stays as it is.
            let _ = fcntl_setpipe_size(pipe, PIPE_BYTES);
        }
        Ok(running)
    }

    /// Whether the command itself has ended. Others that it started may still run.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Takes in what there is, or waits for it, but not beyond this time. Returns early now and then.
    pub(crate) fn attend(&mut self, until: Instant) -> io::Result<()> {
        let mut until = until.min(Instant::now() + NAP);
        if !self.has_ended() {
            self.resident.look(Pid::from_child(&self.launcher));
            until = until.min(self.resident.due());
        }
        let [report, stdout, stderr] = self.wait(until)?;
        if stdout {
            self.stdout
                .take_in(&mut self.piece, self.on_line.as_deref_mut())?;
        }
        if stderr {
            self.stderr
                .take_in(&mut self.piece, self.on_line.as_deref_mut())?;
        }
        if report {
            self.receive_report()?;
        }
        Ok(())
    }

    /// Asks the command, and everything that it started, to end.
    pub(crate) fn terminate(&self) {
        signal_descendants(Pid::from_child(&self.launcher), Signal::TERM);
    }

    /// Ends everything that still runs, also daemons, and takes in what was written before.
    ///
    /// # Errors
    /// `TimedOut` if a process cannot be ended, as one that belongs to another user.
    pub(crate) fn end(mut self) -> io::Result<Ended> {
        let give_up = Instant::now() + KILL_FOR;
        // To walk through /proc takes a good part of a short run, and the launcher knows whether there is a reason to.
        let is_something_left =
            Report::parse(&self.report).is_none_or(|report| report.is_something_left);
        while self.report_pipe.is_some() {
            if Instant::now() > give_up {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if is_something_left {
                signal_descendants(Pid::from_child(&self.launcher), Signal::KILL);
            }
            self.attend(Instant::now() + KILL_AGAIN)?;
        }
        let launcher = self.launcher.wait()?;
        let ended = self.ended.unwrap_or_else(Instant::now);
        for stream in [&mut self.stdout, &mut self.stderr] {
            stream.drain(&mut self.piece, self.on_line.as_deref_mut())?;
        }
        Ok(Ended {
            report: Report::parse(&self.report),
            launcher,
            mean_rss_bytes: self.resident.mean(ended),
            stdout: self.stdout.recorder.finish(self.on_line.as_deref_mut()),
            stderr: self.stderr.recorder.finish(self.on_line.as_deref_mut()),
        })
    }

    /// Waits for the report, standard output and standard error; says which have something, be it their end.
    fn wait(&self, until: Instant) -> io::Result<[bool; 3]> {
        let pipes = [&self.report_pipe, &self.stdout.pipe, &self.stderr.pipe];
        let mut watched: Vec<PollFd<'_>> = pipes
            .iter()
            .filter_map(|pipe| Some(PollFd::new(pipe.as_ref()?, PollFlags::IN)))
            .collect();
        let timeout = until.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(timeout).expect("a nap is no longer than time_t");
        match poll(&mut watched, Some(&timeout)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok([false; 3]),
            Err(errno) => return Err(errno.into()),
        }
        let mut watched = watched.iter();
        Ok(pipes.map(|pipe| {
            pipe.is_some()
                && watched
                    .next()
                    .is_some_and(|pipe| !pipe.revents().is_empty())
        }))
    }

    fn receive_report(&mut self) -> io::Result<()> {
        let Some(pipe) = &mut self.report_pipe else {
            return Ok(());
        };
        let mut piece = [0; 512];
        let count = pipe.read(&mut piece)?;
        self.report.extend_from_slice(&piece[..count]);
        if count == 0 {
            self.report_pipe = None;
        }
        if count == 0 || Report::parse(&self.report).is_some() {
            self.ended.get_or_insert_with(Instant::now);
        }
        Ok(())
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if self.report_pipe.is_some() {
            // Whatever fails here, the error that led here is the one to tell. The command ends with the launcher.
            signal_descendants(Pid::from_child(&self.launcher), Signal::KILL);
            let _ = self.launcher.kill();
            let _ = self.launcher.wait();
        }
    }
}

/// One output of the command.
struct Stream {
    /// None when it was closed.
    pipe: Option<File>,
    recorder: Recorder,
}

impl Stream {
    fn new(source: Source, pipe: Option<OwnedFd>) -> Stream {
        Stream {
            pipe: pipe.map(File::from),
            recorder: Recorder::new(source),
        }
    }

    /// Takes in one piece, and says how long it was: nothing if there is nothing now, or ever again.
    fn take_in(&mut self, piece: &mut [u8], on_line: Option<&mut OnLine<'_>>) -> io::Result<usize> {
        let Some(pipe) = &mut self.pipe else {
            return Ok(0);
        };
        let count = match pipe.read(piece) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            Err(error) => return Err(error),
        };
        if count == 0 {
            self.pipe = None;
        }
        self.recorder.record(&piece[..count], on_line);
        Ok(count)
    }

    /// Takes in what is still in the pipe, and no more than that: somebody outside may hold it open and write on.
    fn drain(&mut self, piece: &mut [u8], mut on_line: Option<&mut OnLine<'_>>) -> io::Result<()> {
        let mut taken = 0;
        while taken < PIPE_BYTES {
            match self.take_in(piece, on_line.as_deref_mut())? {
                0 => break,
                count => taken += count,
            }
        }
        Ok(())
    }
}
