//! The file of Google's pprof: protocol buffers, packed by gzip.
//!
//! The few messages are written by hand: a generator would be larger than what it generates. Numbers of fields are those
//! of `profile.proto` in github.com/google/pprof.

use crate::escape::{shell, visible};
use crate::profile::sites::Stacks;
use crate::profile::whole::Whole;
use flate2::Compression;
use flate2::write::GzEncoder;
use reheap_profile::profile::{Frame, Profile, Site};
use std::collections::HashMap;
use std::io::Write as _;

/// What each sample has, with its unit.
const VALUES: [(&str, &str); 4] = [
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
    ("inuse_objects", "count"),
    ("inuse_space", "bytes"),
];

/// The profile for pprof.
pub fn pprof(profile: &Profile) -> Vec<u8> {
    let whole = Whole::of(profile);
    let stacks = Stacks::of(&whole);
    let mut strings = Strings::default();
    let mut file = Message::default();
    for (name, unit) in VALUES {
        file.message(1, &value_type(&mut strings, name, unit));
    }
    for stack in &stacks.stacks {
        file.message(2, &sample(stack));
    }
    let modules = modules(&stacks);
    for (at, module) in modules.iter().enumerate() {
        file.message(3, &mapping(&mut strings, at, module));
    }
    for (at, frame) in stacks.frames.iter().enumerate() {
        let module = modules
            .iter()
            .position(|module| Some(*module) == frame.module.as_deref());
        file.message(4, &location(at, frame, module));
    }
    for (at, frame) in stacks.frames.iter().enumerate() {
        file.message(5, &function(&mut strings, at, frame));
    }
    file.number(10, (profile.seconds * 1e9).round() as u64);
    file.message(11, &value_type(&mut strings, "space", "bytes"));
    file.number(12, profile.every_bytes.unwrap_or(1));
    let command = strings.place(&shell(&profile.command));
    file.numbers(13, &[command]);
    file.number(14, strings.place("alloc_space"));
    // All strings are known only now; the order of fields does not matter.
    for text in &strings.all {
        file.bytes(6, text.as_bytes());
    }
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    let written = packed.write_all(&file.0).and_then(|()| packed.finish());
    written.expect("a vector takes all that is written to it")
}

/// The number of an entry of a table: 0 stands for none.
fn id(place: usize) -> u64 {
    place as u64 + 1
}

fn modules<'a>(stacks: &Stacks<'a>) -> Vec<&'a str> {
    let mut modules: Vec<&str> = Vec::new();
    for module in stacks
        .frames
        .iter()
        .filter_map(|frame| frame.module.as_deref())
    {
        if !modules.contains(&module) {
            modules.push(module);
        }
    }
    modules
}

fn value_type(strings: &mut Strings, name: &str, unit: &str) -> Message {
    let mut message = Message::default();
    message.number(1, strings.place(name));
    message.number(2, strings.place(unit));
    message
}

fn sample(stack: &Site) -> Message {
    let mut message = Message::default();
    let frames: Vec<u64> = stack
        .frames
        .iter()
        .map(|frame| id(*frame as usize))
        .collect();
    message.numbers(1, &frames);
    let values = [
        stack.allocated_blocks,
        stack.allocated_bytes,
        stack.live_blocks,
        stack.live_bytes,
    ];
    // They are signed there.
    message.numbers(2, &values.map(|value| (value.round() as i64) as u64));
    message
}

fn mapping(strings: &mut Strings, at: usize, module: &str) -> Message {
    let mut message = Message::default();
    message.number(1, id(at));
    message.number(5, strings.place(module));
    // Functions, files, lines and inlined frames are known: pprof need not look for them.
    for field in 7..=10 {
        message.number(field, 1);
    }
    message
}

fn location(at: usize, frame: &Frame, module: Option<usize>) -> Message {
    let mut line = Message::default();
    line.number(1, id(at));
    line.number(2, frame.line.unwrap_or(0).into());
    let mut message = Message::default();
    message.number(1, id(at));
    message.number(2, module.map_or(0, id));
    message.message(4, &line);
    message
}

fn function(strings: &mut Strings, at: usize, frame: &Frame) -> Message {
    let mut message = Message::default();
    message.number(1, id(at));
    // Without a name as the linker sees it: pprof would take this one for it, and shorten what is between brackets.
    message.number(2, strings.place(&frame.function));
    message.number(4, strings.place(frame.file.as_deref().unwrap_or("")));
    message
}

/// Each string once; the first is empty.
struct Strings {
    all: Vec<String>,
    places: HashMap<String, u64>,
}

impl Default for Strings {
    fn default() -> Strings {
        Strings {
            all: vec![String::new()],
            places: HashMap::from([(String::new(), 0)]),
        }
    }
}

impl Strings {
    fn place(&mut self, text: &str) -> u64 {
        let text = &visible(text);
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = self.all.len() as u64;
        self.all.push(text.to_owned());
        self.places.insert(text.to_owned(), place);
        place
    }
}

/// A message of protocol buffers.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    /// Seven bits a byte, the lowest first; the highest bit says that more follow.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) {
        // Zero is what a missing field has.
        if value != 0 {
            self.varint(field << 3);
            self.varint(value);
        }
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, message: &Message) {
        self.bytes(field, &message.0);
    }

    fn numbers(&mut self, field: u64, values: &[u64]) {
        let mut packed = Message::default();
        values.iter().for_each(|value| packed.varint(*value));
        self.message(field, &packed);
    }
}
