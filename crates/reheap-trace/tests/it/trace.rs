//! What is written comes back; what is cut off or changed is told, and harms nobody.

use proptest::prelude::*;
use reheap_trace::reader::{Ending, Reader, Record};
use reheap_trace::writer::Writer;
use reheap_trace::{
    Block, Event, Function, INTO_REALLOC, Process, RawEvent, TICK_NANOSECONDS, Taken, Totals,
    TraceError,
};
use std::collections::HashMap;

/// What a thread does next, in the model.
#[derive(Debug, Clone)]
struct Step {
    thread: u32,
    nanoseconds: u64,
    action: Action,
}

#[derive(Debug, Clone)]
enum Action {
    Allocate(u64),
    AllocateAligned(u64, u64),
    Fail(u64),
    /// The block at this place among those that live.
    Free(prop::sample::Index),
    FreeNull,
    FreeUnknown,
    Reallocate(prop::sample::Index, u64),
    ReallocateNull(u64),
    FailToReallocate(prop::sample::Index),
    ReallocateToNothing(prop::sample::Index),
    EndThread,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = prop_oneof![0u64..100, any::<u64>()];
    let block = || any::<prop::sample::Index>();
    let action = prop_oneof![
        6 => size.clone().prop_map(Action::Allocate),
        1 => (size.clone(), 0u32..63).prop_map(|(size, log)| Action::AllocateAligned(size, 1 << log)),
        1 => size.clone().prop_map(Action::Fail),
        5 => block().prop_map(Action::Free),
        1 => Just(Action::FreeNull),
        1 => Just(Action::FreeUnknown),
        2 => (block(), 1u64..5000).prop_map(|(block, size)| Action::Reallocate(block, size)),
        1 => (1u64..5000).prop_map(Action::ReallocateNull),
        1 => block().prop_map(Action::FailToReallocate),
        1 => block().prop_map(Action::ReallocateToNothing),
        1 => Just(Action::EndThread),
    ];
    let since = prop_oneof![1u64..1000, 1u64..10_000_000_000];
    let step = (0u32..5, since, action);
    prop::collection::vec(step, 0..300).prop_map(|steps| {
        let mut nanoseconds = 0;
        let with_time = |(thread, since, action)| {
            nanoseconds += since;
            Step {
                thread,
                nanoseconds,
                action,
            }
        };
        steps.into_iter().map(with_time).collect()
    })
}

/// A program with its own idea of what a trace of it must say.
#[derive(Default)]
struct Model {
    raw: Vec<(u32, RawEvent)>,
    expected: Vec<Event>,
    live: Vec<(u64, Block)>,
    threads: HashMap<u32, u32>,
    /// By thread of the trace.
    made: Vec<u64>,
    addresses: u64,
}

impl Model {
    fn run(steps: &[Step]) -> Self {
        let mut model = Self::default();
        for step in steps {
            model.perform(step);
        }
        model
    }

    fn raw(&mut self, step: &Step, function: u32, block: u64, size: u64, alignment: u64) {
        let event = RawEvent {
            nanoseconds: step.nanoseconds,
            block,
            size,
            alignment,
            function,
        };
        self.raw.push((step.thread, event));
    }

    fn expect(&mut self, step: &Step, function: Function, size: u64, alignment: u64, taken: Taken) {
        let made = &mut self.made;
        let thread = *self.threads.entry(step.thread).or_insert_with(|| {
            made.push(0);
            made.len() as u32 - 1
        });
        self.expected.push(Event {
            nanoseconds: step.nanoseconds,
            thread,
            function,
            size,
            alignment,
            taken,
            made: None,
        });
    }

    /// The last event made a block, at an address that nothing had before.
    fn made(&mut self) -> u64 {
        let event = self.expected.last_mut().expect("an event was expected");
        let number = self.made[event.thread as usize];
        self.made[event.thread as usize] += 1;
        let block = Block {
            thread: event.thread,
            number,
        };
        event.made = Some(block);
        self.addresses += 16;
        self.live.push((self.addresses, block));
        self.addresses
    }

    fn taken(&mut self, index: &prop::sample::Index) -> Option<(u64, Block)> {
        (!self.live.is_empty()).then(|| self.live.swap_remove(index.index(self.live.len())))
    }

    fn perform(&mut self, step: &Step) {
        use Function as F;
        match &step.action {
            Action::Allocate(size) => {
                self.expect(step, F::Malloc, *size, 0, Taken::Nothing);
                let address = self.made();
                self.raw(step, F::Malloc as u32, address, *size, 0);
            }
            Action::AllocateAligned(size, alignment) => {
                self.expect(step, F::AlignedAlloc, *size, *alignment, Taken::Nothing);
                let address = self.made();
                self.raw(step, F::AlignedAlloc as u32, address, *size, *alignment);
            }
            Action::Fail(size) => {
                self.expect(step, F::Calloc, *size, 0, Taken::Nothing);
                self.raw(step, F::Calloc as u32, 0, *size, 0);
            }
            Action::Free(index) => {
                let Some((address, block)) = self.taken(index) else {
                    return;
                };
                self.expect(step, F::Free, 0, 0, Taken::Block(block));
                self.raw(step, F::Free as u32, address, 0, 0);
            }
            Action::FreeNull => {
                self.expect(step, F::Free, 0, 0, Taken::Null);
                self.raw(step, F::Free as u32, 0, 0, 0);
            }
            Action::FreeUnknown => {
                self.expect(step, F::Free, 0, 0, Taken::Unknown);
                self.raw(step, F::Free as u32, u64::MAX, 0, 0);
            }
            Action::Reallocate(index, size) => {
                let Some((address, block)) = self.taken(index) else {
                    return;
                };
                self.expect(step, F::Realloc, *size, 0, Taken::Block(block));
                self.raw(step, INTO_REALLOC, address, 0, 0);
                let address = self.made();
                self.raw(step, F::Realloc as u32, address, *size, 0);
            }
            Action::ReallocateNull(size) => {
                self.expect(step, F::Realloc, *size, 0, Taken::Null);
                let address = self.made();
                self.raw(step, F::Realloc as u32, address, *size, 0);
            }
            Action::FailToReallocate(index) => {
                let Some((address, block)) = self.taken(index) else {
                    return;
                };
                self.live.push((address, block));
                self.expect(step, F::Realloc, u64::MAX, 0, Taken::Block(block));
                self.raw(step, INTO_REALLOC, address, 0, 0);
                self.raw(step, F::Realloc as u32, 0, u64::MAX, 0);
            }
            Action::ReallocateToNothing(index) => {
                let Some((address, block)) = self.taken(index) else {
                    return;
                };
                self.expect(step, F::ReallocToNothing, 0, 0, Taken::Block(block));
                self.raw(step, INTO_REALLOC, address, 0, 0);
                self.raw(step, F::Realloc as u32, 0, 0, 0);
            }
            Action::EndThread => {
                self.expect(step, F::ThreadEnd, 0, 0, Taken::Nothing);
                self.raw(step, F::ThreadEnd as u32, 0, 0, 0);
                self.threads.remove(&step.thread);
            }
        }
    }
}

/// A trace of these events, of which chunks are written and batches delivered after so many.
fn written(raw: &[(u32, RawEvent)], events_per_chunk: usize) -> (Vec<u8>, Totals) {
    let mut writer = Writer::new(Vec::new()).unwrap();
    let stream = writer.begin_process(&Process::default()).unwrap();
    for batch in raw.chunks(events_per_chunk.max(1)) {
        // Thread by thread, as a recorder finds them.
        for thread in 0..8 {
            let of_thread = batch.iter().filter(|(t, _)| *t == thread);
            let events: Vec<RawEvent> = of_thread.map(|(_, event)| *event).collect();
            writer.push(stream, thread, &events);
        }
        let until = batch.last().map_or(0, |(_, event)| event.nanoseconds);
        writer.advance(stream, until).unwrap();
        writer.flush().unwrap();
    }
    writer.end_process(stream, 0).unwrap();
    let (bytes, written) = writer.finish().unwrap();
    assert_eq!(bytes.len() as u64, written.bytes);
    (bytes, written.totals)
}

fn events_of(bytes: &[u8]) -> (Vec<Event>, Option<Ending>) {
    let mut reader = Reader::new(bytes).unwrap();
    let mut events = Vec::new();
    for record in &mut reader {
        if let Record::Event(_, event) = record.unwrap() {
            events.push(event);
        }
    }
    (events, reader.ending())
}

/// A reader knows the order of each thread, and that what is taken was made before.
fn assert_in_order(events: &[Event]) {
    let mut live = HashMap::new();
    let mut last = 0;
    for event in events {
        assert!(event.nanoseconds >= last, "times go back at {event:?}");
        last = event.nanoseconds;
        let keeps = event.function == Function::Realloc && event.made.is_none();
        if let Taken::Block(block) = event.taken
            && !keeps
        {
            assert!(live.remove(&block).is_some(), "{event:?} takes no block");
        }
        if let Some(block) = event.made {
            assert!(live.insert(block, ()).is_none(), "{event:?} makes it twice");
        }
    }
}

/// The events of each thread, without times.
fn by_thread(events: &[Event]) -> HashMap<u32, Vec<Event>> {
    let mut threads: HashMap<u32, Vec<Event>> = HashMap::new();
    for event in events {
        let nanoseconds = 0;
        let event = Event {
            nanoseconds,
            ..*event
        };
        threads.entry(event.thread).or_default().push(event);
    }
    threads
}

proptest! {
    #[test]
    fn what_is_written_comes_back(steps in steps(), events_per_chunk in 1usize..400) {
        let model = Model::run(&steps);
        let (bytes, totals) = written(&model.raw, events_per_chunk);
        let (events, ending) = events_of(&bytes);
        prop_assert_eq!(ending, Some(Ending::Finished));
        assert_in_order(&events);
        prop_assert_eq!(by_thread(&events), by_thread(&model.expected));
        prop_assert_eq!(totals.lost_frees, 0);
        // Threads that take each other's blocks within a tick are moved apart by a tick each.
        let latest = (model.expected.len() as u64 + 1) * TICK_NANOSECONDS;
        for (event, expected) in in_order_of_threads(&events).iter().zip(in_order_of_threads(&model.expected)) {
            prop_assert!(event.nanoseconds + TICK_NANOSECONDS > expected.nanoseconds);
            prop_assert!(event.nanoseconds <= expected.nanoseconds + latest);
        }
    }

    #[test]
    fn any_events_make_a_trace_that_can_be_read(
        raw in prop::collection::vec(
            (0u32..4, 0u64..2000, 0u64..6, any::<u64>(), any::<u64>(), 0u32..22),
            0..400,
        ),
        events_per_chunk in 1usize..100,
    ) {
        let event = |(thread, nanoseconds, block, size, alignment, function)| {
            (thread, RawEvent { nanoseconds, block, size, alignment, function })
        };
        let raw: Vec<(u32, RawEvent)> = raw.into_iter().map(event).collect();
        let (bytes, totals) = written(&raw, events_per_chunk);
        let (events, ending) = events_of(&bytes);
        prop_assert_eq!(ending, Some(Ending::Finished));
        let calls = events.iter().filter(|e| !matches!(e.function, Function::LostFree | Function::ThreadEnd));
        prop_assert_eq!(calls.count() as u64, totals.calls);
        assert_in_order_of_times_and_blocks(&events);
    }

    #[test]
    fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_anything(&bytes);
        let (trace, _) = written(&Model::run(&[]).raw, 1);
        read_anything(&[&trace[..16], &bytes[..]].concat());
    }

    #[test]
    fn a_changed_trace_is_refused_or_read(
        steps in steps(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let (mut bytes, _) = written(&Model::run(&steps).raw, 50);
        for (index, byte) in changes {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        read_anything(&bytes);
    }
}

fn in_order_of_threads(events: &[Event]) -> Vec<Event> {
    let mut events = events.to_vec();
    events.sort_by_key(|event| event.thread);
    events
}

/// Like [`assert_in_order`], but events that contradict each other may take a block that was lost.
fn assert_in_order_of_times_and_blocks(events: &[Event]) {
    let mut made = HashMap::new();
    let mut last = 0;
    for event in events {
        assert!(event.nanoseconds >= last);
        last = event.nanoseconds;
        if let Taken::Block(block) = event.taken {
            assert!(
                made.contains_key(&block),
                "{event:?} takes what is not made"
            );
        }
        if let Some(block) = event.made {
            assert!(made.insert(block, ()).is_none());
        }
    }
}

fn read_anything(bytes: &[u8]) {
    let Ok(reader) = Reader::new(bytes) else {
        return;
    };
    for record in reader {
        let _ = record;
    }
}

/// Two threads, with some frees across.
fn small_trace() -> Vec<(u32, RawEvent)> {
    let mut raw = Vec::new();
    for round in 0..40u64 {
        let event = |function: Function, block, after| RawEvent {
            nanoseconds: round * 10_000 + after,
            block,
            size: 24 + round % 3,
            alignment: 0,
            function: function as u32,
        };
        raw.push((0, event(Function::Malloc, 1000 + round, 0)));
        raw.push((1, event(Function::Free, 1000 + round, 500)));
        raw.push((1, event(Function::Malloc, 5000 + round, 900)));
    }
    raw
}

#[test]
fn a_trace_that_is_cut_off_anywhere_has_all_whole_chunks() {
    let raw = small_trace();
    let (bytes, _) = written(&raw, 10);
    let (all, _) = events_of(&bytes);
    assert_eq!(all.len(), raw.len());
    let mut lengths = Vec::new();
    for length in 0..bytes.len() {
        let cut = &bytes[..length];
        if length < 16 {
            assert!(matches!(Reader::new(cut), Err(TraceError::NotATrace)));
            continue;
        }
        let (events, ending) = events_of(cut);
        assert_eq!(events, all[..events.len()]);
        assert!(matches!(ending, Some(Ending::CutOff { .. })), "{ending:?}");
        if ending == Some(Ending::CutOff { bytes: 0 }) {
            lengths.push(events.len());
        }
    }
    // Process, 12 or 13 chunks of events, end: at each of these places nothing is left out.
    assert!(lengths.len() > 12, "{lengths:?}");
    assert_eq!(lengths.last(), Some(&raw.len()));
}

#[test]
fn every_changed_byte_is_noticed() {
    let (bytes, _) = written(&small_trace(), 10);
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        let whole = Reader::new(&changed[..]).is_ok_and(|mut reader| {
            reader.by_ref().all(|record| record.is_ok())
                && reader.ending() == Some(Ending::Finished)
        });
        assert!(!whole, "nobody noticed a change at byte {at}");
    }
}

#[test]
fn a_trace_of_another_version_is_refused_with_both_versions() {
    let (mut bytes, _) = written(&small_trace(), 10);
    bytes[8] = 9;
    let error = Reader::new(&bytes[..]).err().map(|error| error.to_string());
    let text = "it has format 9; this version of reheap reads format 1";
    assert_eq!(error.as_deref(), Some(text));
}

#[test]
fn memory_that_is_given_out_again_was_freed() {
    let event = |nanoseconds, function: Function, block| RawEvent {
        nanoseconds,
        block,
        size: 10,
        alignment: 0,
        function: function as u32,
    };
    let raw = [
        (0, event(100, Function::Malloc, 77)),
        (1, event(200, Function::Malloc, 77)),
        (0, event(300, Function::Free, 77)),
        (0, event(400, Function::Free, 77)),
    ];
    let (bytes, totals) = written(&raw, 10);
    assert_eq!((totals.lost_frees, totals.unknown_frees), (1, 1));
    let (events, _) = events_of(&bytes);
    let functions: Vec<Function> = events.iter().map(|event| event.function).collect();
    use Function::{Free, LostFree, Malloc};
    assert_eq!(functions, [Malloc, LostFree, Malloc, Free, Free]);
    let block = |thread| Taken::Block(Block { thread, number: 0 });
    assert_eq!(events[1].taken, block(0));
    assert_eq!(events[3].taken, block(1));
    assert_eq!(events[4].taken, Taken::Unknown);
}

/// A thread was held up between its look at the clock and its buffer, while the recorder emptied all buffers.
#[test]
fn a_free_that_comes_late_is_still_before_the_next_owner() {
    let event = |nanoseconds, function: Function, block| RawEvent {
        nanoseconds,
        block,
        size: 10,
        alignment: 0,
        function: function as u32,
    };
    let mut writer = Writer::new(Vec::new()).unwrap();
    let stream = writer.begin_process(&Process::default()).unwrap();
    let early = [
        event(50_000, Function::Malloc, 77),
        event(95_000, Function::Malloc, 88),
    ];
    writer.push(stream, 0, &early);
    writer.advance(stream, 100_000).unwrap();
    writer.flush().unwrap();
    writer.push(stream, 0, &[event(150_000, Function::Malloc, 77)]);
    writer.push(stream, 1, &[event(90_000, Function::Free, 77)]);
    writer.end_process(stream, 0).unwrap();
    let (bytes, written) = writer.finish().unwrap();
    assert_eq!(written.totals.out_of_order, 1);
    assert_eq!(
        (written.totals.lost_frees, written.totals.unknown_frees),
        (0, 0)
    );
    let (events, _) = events_of(&bytes);
    assert_in_order(&events);
    let functions: Vec<Function> = events.iter().map(|event| event.function).collect();
    use Function::{Free, Malloc};
    assert_eq!(functions, [Malloc, Malloc, Free, Malloc]);
}

#[test]
fn several_processes_share_a_file() {
    let mut writer = Writer::new(Vec::new()).unwrap();
    let mut streams = Vec::new();
    for pid in [10, 20] {
        let process = Process {
            pid,
            ..Process::default()
        };
        streams.push(writer.begin_process(&process).unwrap());
    }
    for round in 0..5 {
        for (stream, count) in streams.iter().zip([1, 2]) {
            for (thread, event) in small_trace().iter().take(count) {
                let nanoseconds = event.nanoseconds + round * 1000;
                let event = RawEvent {
                    nanoseconds,
                    block: event.block + round,
                    ..*event
                };
                writer.push(*stream, *thread, &[event]);
            }
            writer.advance(*stream, (round + 1) * 1000).unwrap();
        }
        writer.flush().unwrap();
    }
    writer.end_process(streams[0], 3).unwrap();
    let (bytes, written) = writer.finish().unwrap();
    assert_eq!(written.totals.calls, 15);
    assert_eq!(written.totals.lost_calls, 3);
    let records: Vec<Record> = Reader::new(&bytes[..])
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let count = |wanted| {
        let is_wanted = |record: &&Record| matches!(record, Record::Event(s, _) if *s == wanted);
        records.iter().filter(is_wanted).count()
    };
    assert_eq!((count(streams[0]), count(streams[1])), (5, 10));
    assert!(matches!(&records[1], Record::Process(_, process) if process.pid == 20));
}
