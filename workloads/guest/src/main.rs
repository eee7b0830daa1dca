//! Tells what a program sees inside a container image: who it is, which certificates it finds, where it may write.
//!
//! The tests of `reheap image` pack and run it. It looks for certificates as a TLS client does, and reads each as one
//! would before it connects.

#![allow(clippy::print_stdout, reason = "it is a program that tells")]

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

fn main() {
    if let Some(megabytes) = env::args().nth(1) {
        let megabytes: usize = megabytes.parse().expect("a number of megabytes");
        // Not zero, so every page is touched.
        let filled = vec![1_u8; megabytes << 20];
        println!(
            "filled {} bytes",
            filled.iter().map(|byte| usize::from(*byte)).sum::<usize>()
        );
        return;
    }
    let own = fs::metadata("/proc/self").expect("/proc is mounted");
    println!("user {}:{}", own.uid(), own.gid());
    let may_write = |path: &str| fs::write(path, "text").is_ok();
    println!("writes to /tmp: {}", may_write("/tmp/file"));
    println!("writes to home: {}", may_write("/home/nonroot/file"));
    println!("writes to /: {}", may_write("/file"));
    println!(
        "has a shell: {}",
        fs::exists("/bin/sh").expect("/bin can be read")
    );
    println!(
        "zone of Berlin: {}",
        fs::exists("/usr/share/zoneinfo/Europe/Berlin").expect("readable")
    );
    println!("variable: {:?}", env::var("GUEST").ok());
    println!("file: {:?}", fs::read_to_string("/etc/guest/text").ok());
    let found = rustls_native_certs::load_native_certs();
    let is_valid = |certificate| webpki::anchor_from_trusted_cert(certificate).is_ok();
    let valid = found
        .certs
        .iter()
        .filter(|certificate| is_valid(certificate))
        .count();
    println!(
        "certificates: {} valid of {}, {} errors",
        valid,
        found.certs.len(),
        found.errors.len()
    );
}
