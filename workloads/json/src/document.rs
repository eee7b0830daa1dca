//! The document: records as a service with users might send them, made up from a seed.
//!
//! Strings of most lengths, short arrays, objects in objects, whole numbers and fractions, so that the sizes of the
//! allocations are spread and no single one can be kept at hand.

use std::fmt::Write;
use workload::Random;

/// How many records the document has, for a megabyte.
pub(crate) const RECORDS: usize = 2460;

pub(crate) fn document() -> String {
    let mut random = Random::from_seed(1);
    let mut text = String::from("[");
    for id in 0..RECORDS {
        if id > 0 {
            text.push(',');
        }
        record(&mut text, &mut random, id);
    }
    text.push(']');
    text
}

fn record(text: &mut String, random: &mut Random, id: usize) {
    let active = random.below(2) == 0;
    let [name, street, city] = [12, 24, 10].map(|letters| word(random, letters));
    let about = list(random, 40, |random| word(random, 9)).join(" ");
    let tags = list(random, 8, |random| format!("\"{}\"", word(random, 14))).join(",");
    let friends = list(random, 6, friend).join(",");
    let [east, north] = [(); 2].map(|()| random.below(180_000_000) as f64 / 1e6);
    let address = format!(r#"{{"street":"{street}","city":"{city}","position":[{east},{north}]}}"#);
    write!(
        text,
        r#"{{"id":{id},"name":"{name}","active":{active},"about":"{about}","tags":[{tags}],"address":{address},"friends":[{friends}]}}"#
    )
    .expect("a string can always grow");
}

fn friend(random: &mut Random) -> String {
    let (id, name) = (random.below(RECORDS as u64), word(random, 12));
    format!(r#"{{"id":{id},"name":"{name}"}}"#)
}

fn list(random: &mut Random, most: u64, item: impl Fn(&mut Random) -> String) -> Vec<String> {
    let items = random.below(most + 1);
    (0..items).map(|_| item(random)).collect()
}

/// One to `most` small letters.
fn word(random: &mut Random, most: u64) -> String {
    let letters = 1 + random.below(most);
    (0..letters)
        .map(|_| char::from(b'a' + random.below(26) as u8))
        .collect()
}
