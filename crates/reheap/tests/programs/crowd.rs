//! Threads that come and go, leave blocks to others, and start other programs.

use std::collections::HashMap;
use std::process::Command;
use std::sync::mpsc;
use std::thread;

fn main() {
    let (sender, receiver) = mpsc::channel::<Vec<String>>();
    for round in 0..200 {
        let threads: Vec<_> = (0..8)
            .map(|number| {
                let sender = sender.clone();
                thread::spawn(move || {
                    let words: Vec<String> = (0..200).map(|i| format!("{round} {number} {i}")).collect();
                    let lengths: HashMap<&str, usize> =
                        words.iter().map(|word| (word.as_str(), word.len())).collect();
                    assert!(lengths.iter().all(|(word, length)| word.len() == *length));
                    sender.send(words).unwrap();
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
    drop(sender);
    let bytes: usize = receiver.iter().flatten().map(|word| word.len()).sum();
    let said = Command::new("echo").arg("hello").output().unwrap();
    assert_eq!(said.stdout, b"hello\n");
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    let peak: usize = peak.split_whitespace().nth(1).unwrap().parse().unwrap();
    // What is in the channel, and as much again for what threads have left.
    assert!(peak < 100_000, "{peak} KiB");
    println!("{bytes}");
}
