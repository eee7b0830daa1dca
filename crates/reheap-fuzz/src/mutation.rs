//! Mutations of inputs, the same in each run.
//!
//! libFuzzer finds more, because it sees which code an input reaches. But it needs a nightly Rust, and minutes.

use serde_json::Value;

/// Numbers at which sizes and counts overflow.
const NUMBERS: [u64; 10] = [
    0,
    1,
    0x7f,
    0xff,
    0x7fff_ffff,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    u64::MAX,
    u64::MAX - 7,
    1 << 63,
];
/// Words that mean something to one of the readers.
const WORDS: [&[u8]; 12] = [
    b"\x7fELF",
    b"!<arch>\n",
    b"#!",
    b"/usr/bin/env -S ",
    b"../",
    b"\0",
    b"\n",
    b"-1",
    b"1e999",
    b"\\u0000",
    b"[",
    b"\"",
];

/// Pseudorandom numbers (xorshift64*), the same for the same seed.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The sequence that belongs to a number.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`; 0 if that is 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.next() as usize % end.max(1)
    }

    fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

/// Changes an input at some places. `other` may lend parts.
pub fn mutated(seed: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    if random.below(2) == 0
        && let Ok(mut value) = serde_json::from_slice::<Value>(seed)
    {
        for _ in 0..=random.below(3) {
            change_json(&mut value, random);
        }
        return value.to_string().into_bytes();
    }
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(6) {
        change(&mut bytes, other, random);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(bytes.len());
    let rest = bytes.len() - at;
    let some = random.below(rest.min(64)).max(1).min(rest);
    match random.below(8) {
        0 if rest > 0 => bytes[at] ^= 1 << random.below(8),
        1 if rest > 0 => bytes[at] = random.next() as u8,
        2 => {
            // As wide as the fields of file formats are.
            let number = random.one_of(&NUMBERS).to_le_bytes();
            let width = random.one_of(&[2, 4, 8]).min(rest);
            bytes[at..at + width].copy_from_slice(&number[..width]);
        }
        3 => drop(bytes.drain(at..at + some)),
        4 => {
            let part = bytes[at..at + some].to_vec();
            let to = random.below(bytes.len());
            bytes.splice(to..to, part);
        }
        5 => {
            let from = random.below(other.len());
            let part = &other[from..(from + 64).min(other.len())];
            bytes.splice(at..at + some, part.iter().copied());
        }
        6 => drop(bytes.splice(at..at, random.one_of(&WORDS).iter().copied())),
        _ => bytes.truncate(bytes.len() - some),
    }
}

/// Changes one value in a document, so that it stays one.
fn change_json(value: &mut Value, random: &mut Random) {
    let inside = match value {
        Value::Array(list) if random.below(8) != 0 => {
            let at = random.below(list.len());
            list.get_mut(at)
        }
        Value::Object(map) if random.below(8) != 0 => {
            let at = random.below(map.len());
            map.values_mut().nth(at)
        }
        _ => None,
    };
    if let Some(inside) = inside {
        return change_json(inside, random);
    }
    match (value, random.below(4)) {
        (Value::Array(list), 0 | 1) => list.truncate(random.below(list.len())),
        (Value::Array(list), 2) => list.extend(list.clone()),
        (Value::Object(map), 0..=2) => {
            let name = map.keys().nth(random.below(map.len())).cloned();
            name.and_then(|name| map.remove(&name));
        }
        (value, _) => {
            *value = match random.below(7) {
                0 => Value::Null,
                1 => random.one_of(&NUMBERS).into(),
                2 => (-1).into(),
                3 => random.one_of(&[1e-300, 1e300, 0.1, -0.0]).into(),
                4 => String::from_utf8_lossy(random.one_of(&WORDS)).into(),
                5 => Value::Array(Vec::new()),
                _ => true.into(),
            }
        }
    }
}
