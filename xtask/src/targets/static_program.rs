//! A program for every target: threads that fill maps, and a block of each size.

use std::collections::HashMap;

fn main() {
    let fill = |number: u8| {
        let value = move |key: usize| vec![number; key % 300];
        let entry = |key: usize| (format!("key {key} of {number}"), value(key));
        let map: HashMap<String, Vec<u8>> = (0..1000).map(entry).collect();
        assert!(map.values().flatten().all(|byte| *byte == number));
        map.len()
    };
    let threads: Vec<_> = (1..5).map(|number| std::thread::spawn(move || fill(number))).collect();
    let entries: usize = threads.into_iter().map(|thread| thread.join().expect("it ends")).sum();
    println!("{entries} entries");
}
