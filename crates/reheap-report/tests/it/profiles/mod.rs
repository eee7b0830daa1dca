//! Profiles to make reports from, made up and the same each time.

#![allow(dead_code, unreachable_pub, reason = "each test uses some of them")]

pub mod shaken;

use reheap_profile::profile::{
    Access, Counts, Ending, FORMAT, Frame, LifetimeBucket, LifetimeInAllocationsBucket, Live, Lost,
    Measured, Peak, Point, Process, Profile, Realloc, ResidentParts, Site, Sites, SizeBucket,
    Thread, TimeShares, Unseen, Usable,
};
use std::collections::BTreeMap;
use std::f64::consts::TAU;

const MIB: u64 = 1 << 20;

/// Each with its name.
pub fn all() -> Vec<(&'static str, Profile)> {
    vec![
        ("usual", usual()),
        ("small", small()),
        ("threads", threads()),
        ("no-sites", no_sites()),
        ("nothing", nothing()),
        ("no-process", no_process()),
        ("several", several()),
        ("hostile", hostile()),
        ("wasteful", wasteful()),
    ]
}

pub fn profile(command: &[&str], seconds: f64, processes: Vec<Process>) -> Profile {
    Profile {
        format: FORMAT,
        reheap: "0.1.0".to_owned(),
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        seconds,
        ending: Ending::Exited(0),
        every_bytes: Some(512 << 10),
        processes,
        unseen: Vec::new(),
    }
}

/// A process that allocated nothing.
pub fn process(pid: u32, program: &str, seconds: f64) -> Process {
    Process {
        pid,
        parent: None,
        program: program.into(),
        access: Access::Preload,
        allocator: Some("glibc 2.36".to_owned()),
        began: 0.001,
        ended: Some(seconds),
        counts: Counts::default(),
        peak: Peak::default(),
        live_at_end: Live::default(),
        curve: Vec::new(),
        resident_most: None,
        resident_last: None,
        threads: Vec::new(),
        time: None,
        sites: Sites::default(),
        lost: Lost::default(),
        not_counted: Vec::new(),
        malloc_file: None,
        is_bypassed: false,
        name: None,
    }
}

/// A program on one thread with all that can be observed.
pub fn usual() -> Profile {
    profile(
        &["./json", "--rounds", "40", "large file.json"],
        12.34,
        vec![json(4711)],
    )
}

fn json(pid: u32) -> Process {
    let mut process = process(pid, "/usr/local/bin/json", 12.34);
    process.counts = counts(1);
    process.peak = Peak {
        live: Live {
            blocks: 412_345,
            bytes: 52_500_000,
        },
        seconds: 2.06,
        within_bytes: 65_536,
    };
    process.live_at_end = Live {
        blocks: 12,
        bytes: 4_711,
    };
    process.curve = curve(12.34, 400, 52_500_000);
    process.threads = vec![thread(pid, Some("json"), 9_876_543, 0)];
    process.time = Some(time());
    process.sites = sites();
    process
}

fn time() -> TimeShares {
    TimeShares {
        user_seconds: 11.2,
        system_seconds: 0.8,
        samples: 11_987,
        in_hooks: None,
        in_allocator: 1_083,
        measured: Measured::Samples,
        in_kernel: Some(801),
        in_kernel_for_allocator: Some(96),
        in_memory_functions: Some(477),
        memory_functions: BTreeMap::from([
            ("memcpy".to_owned(), 371),
            ("memset".to_owned(), 102),
            ("strlen".to_owned(), 4),
        ]),
        in_page_faults: Some(203),
        waited_seconds: 0.0,
        minor_faults: 14_321,
        major_faults: 0,
    }
}

fn thread(tid: u32, name: Option<&str>, blocks: u64, of_others: u64) -> Thread {
    Thread {
        tid,
        name: name.map(str::to_owned),
        allocated: Live {
            blocks,
            bytes: blocks * 127,
        },
        freed: Live {
            blocks: blocks - blocks / 100,
            bytes: blocks * 125,
        },
        freed_of_others: Live {
            blocks: of_others,
            bytes: of_others * 131,
        },
    }
}

pub fn counts(times: u64) -> Counts {
    let calls = [
        ("malloc", 8_000_000),
        ("calloc", 1_876_543),
        ("realloc", 345_678),
        ("free", 9_876_531),
    ];
    let sizes: [(u64, u64, u64, u64); 9] = [
        (1, 16, 2_345_678, 24),
        (17, 32, 4_567_890, 40),
        (33, 48, 1_234_567, 56),
        (49, 64, 834_567, 72),
        (65, 128, 534_567, 136),
        (129, 256, 234_567, 264),
        (1025, 1280, 112_345, 1288),
        (65_537, 81_920, 12_345, 81_936),
        (41_943_041, 50_331_648, 17, 50_335_744),
    ];
    let lifetimes = [
        (Some(1e-3), 7_012_345),
        (Some(1e-2), 1_234_567),
        (Some(1e-1), 1_034_567),
        (Some(1.0), 512_345),
        (Some(10.0), 82_707),
        (None, 0),
    ];
    let in_allocations = [
        (Some(1), 1_185_185),
        (Some(4), 3_234_567),
        (Some(64), 3_012_345),
        (None, 2_444_434),
    ];
    Counts {
        calls: calls
            .iter()
            .map(|(name, calls)| ((*name).to_owned(), calls * times))
            .collect(),
        allocations: 9_876_543 * times,
        frees: 9_876_531 * times,
        requested_bytes: 1_254_321_987 * times,
        failed: 0,
        zero_size: 12 * times,
        huge: 17 * times,
        sizes: sizes
            .iter()
            .map(|(from, to, blocks, usable)| SizeBucket {
                from: *from,
                to: *to,
                blocks: blocks * times,
                requested_bytes: blocks * times * (from + to) / 2,
                usable: Some(Usable {
                    blocks: 100,
                    requested_bytes: 100 * (from + to) / 2,
                    usable_bytes: 100 * usable,
                }),
            })
            .collect(),
        alignments: [(16, 12), (64, 345), (4096, 7)].into(),
        realloc: Realloc {
            in_place: 245_678 * times,
            moved: 100_000 * times,
            copied_bytes: 45_678_901 * times,
        },
        lifetimes: lifetimes
            .iter()
            .map(|(below_seconds, blocks)| LifetimeBucket {
                below_seconds: *below_seconds,
                blocks: blocks * times,
                bytes: blocks * times * 127,
            })
            .collect(),
        lifetimes_in_allocations: in_allocations
            .iter()
            .map(|(below_allocations, blocks)| LifetimeInAllocationsBucket {
                below_allocations: *below_allocations,
                blocks: blocks * times,
                bytes: blocks * times * 127,
            })
            .collect(),
        temporaries: 1_185_185 * times,
        freed_by_another_thread: Live::default(),
        unknown_frees: 0,
    }
}

/// Memory that rises, and comes and goes.
fn curve(seconds: f64, points: u64, peak: u64) -> Vec<Point> {
    (0..=points)
        .map(|at| {
            let part = at as f64 / points as f64;
            let wave = (0.5 - 0.5 * (part * TAU * 3.0).cos()) * (1.0 - part * 0.5) * 1.09;
            let live = (peak as f64 * wave) as u64;
            Point {
                seconds: seconds * part,
                live: Live {
                    blocks: live / 127,
                    bytes: live,
                },
                allocations: (9_876_543.0 * part) as u64,
                resident_bytes: Some(
                    (peak as f64 * wave.max(part.min(0.4)) * 1.2) as u64 + 3 * MIB,
                ),
            }
        })
        .collect()
}

fn frame(function: &str, file: &str, line: u32) -> Frame {
    Frame {
        function: function.to_owned(),
        module: Some("/usr/local/bin/json".to_owned()),
        file: Some(file.to_owned()),
        line: Some(line),
        inlined: false,
    }
}

fn sites() -> Sites {
    let mut frames = vec![
        frame(
            "alloc::vec::Vec<T,A>::push",
            "/rustc/library/alloc/src/vec/mod.rs",
            2010,
        ),
        frame("json::parse::Parser<'_>::value", "src/parse.rs", 120),
        frame("json::parse::Parser<'_>::object", "src/parse.rs", 201),
        frame("json::main", "src/main.rs", 17),
        frame("json::text::unescape", "src/text.rs", 44),
        frame(
            "<json::value::Value as core::clone::Clone>::clone",
            "src/value.rs",
            9,
        ),
    ];
    frames[0].inlined = true;
    frames.push(Frame {
        function: "0x1040".to_owned(),
        module: Some("/usr/lib/libz.so.1".to_owned()),
        ..Frame::default()
    });
    let site = |frames: &[u32], samples: u64, blocks: f64, live: f64| Site {
        frames: frames.to_vec(),
        samples,
        allocated_blocks: blocks,
        allocated_bytes: samples as f64 * 524_288.0,
        allocated_bytes_error: (samples as f64).sqrt() * 524_288.0,
        live_blocks: live,
        live_bytes: live * 392.0,
    };
    Sites {
        frames,
        stacks: vec![
            site(&[0, 1, 2, 1, 3], 1_234, 4_512_345.0, 0.0),
            site(&[4, 1, 3], 612, 3_212_345.0, 0.0),
            site(&[0, 1, 3], 301, 1_012_345.0, 10.0),
            site(&[5, 3], 154, 812_345.0, 2.0),
            site(&[6, 3], 77, 1_234.0, 0.0),
            site(&[3], 14, 17.0, 0.0),
        ],
    }
}

/// Few blocks, as from a unit test.
pub fn small() -> Profile {
    let mut process = process(17, "/bin/true", 0.002);
    process.counts = Counts {
        calls: [("malloc".to_owned(), 2), ("free".to_owned(), 1)].into(),
        allocations: 2,
        frees: 1,
        requested_bytes: 48,
        sizes: vec![SizeBucket {
            from: 17,
            to: 32,
            blocks: 2,
            requested_bytes: 48,
            usable: None,
        }],
        lifetimes: vec![LifetimeBucket {
            below_seconds: Some(1e-3),
            blocks: 1,
            bytes: 24,
        }],
        ..Counts::default()
    };
    process.peak = Peak {
        live: Live {
            blocks: 2,
            bytes: 48,
        },
        seconds: 0.001,
        within_bytes: 0,
    };
    process.live_at_end = Live {
        blocks: 1,
        bytes: 24,
    };
    process.curve = curve(0.002, 1, 48);
    process.threads = vec![thread(17, None, 2, 0)];
    profile(&["true"], 0.002, vec![process])
}

/// A server whose threads hand blocks to each other.
pub fn threads() -> Profile {
    let mut process = json(31);
    process.program = "/usr/sbin/queue-server".into();
    process.counts.freed_by_another_thread = Live {
        blocks: 3_753_081,
        bytes: 476_641_287,
    };
    process.counts.failed = 3;
    process.time = Some(TimeShares {
        waited_seconds: 4.56,
        ..time()
    });
    process.threads = (0..18)
        .map(|at: u32| {
            let name = format!("worker-{at}");
            thread(31 + at, Some(&name), 1_200_000 / u64::from(at + 1), 90_000)
        })
        .collect();
    process.ended = None;
    Profile {
        ending: Ending::Detached,
        ..profile(
            &["/usr/sbin/queue-server", "--threads=18"],
            60.0,
            vec![process],
        )
    }
}

/// A profile without time, stacks and resident memory.
pub fn no_sites() -> Profile {
    let mut only = usual();
    only.every_bytes = None;
    let process = &mut only.processes[0];
    process.sites = Sites::default();
    process.time = None;
    process
        .curve
        .iter_mut()
        .for_each(|point| point.resident_bytes = None);
    process
        .counts
        .sizes
        .iter_mut()
        .for_each(|size| size.usable = None);
    only
}

/// A program that allocates nothing.
pub fn nothing() -> Profile {
    Profile {
        ending: Ending::Killed(15),
        ..profile(&["./asleep"], 1.0, vec![process(99, "/tmp/asleep", 1.0)])
    }
}

/// A profile of a program that could not be watched.
pub fn no_process() -> Profile {
    Profile {
        unseen: vec![unseen(
            "/usr/bin/sudo",
            "it runs with other rights (setuid)",
        )],
        ..profile(&["sudo", "ls"], 0.1, Vec::new())
    }
}

fn unseen(program: &str, reason: &str) -> Unseen {
    Unseen {
        program: program.into(),
        reason: reason.to_owned(),
        ..Unseen::default()
    }
}

/// A build with several processes, each of a kind of its own.
pub fn several() -> Profile {
    let mut shell = process(100, "/usr/bin/dash", 20.0);
    shell.counts = small().processes[0].counts.clone();
    shell.peak = small().processes[0].peak;
    shell.curve = curve(20.0, 20, 48);
    let mut compilers: Vec<Process> = (0..6u64)
        .map(|at| {
            let mut compiler = json(101 + at as u32);
            compiler.parent = Some(100);
            compiler.program = "/usr/lib/gcc/cc1plus".into();
            compiler.access =
                [Access::Preload, Access::Symbols, Access::Signature][at as usize % 3];
            compiler.counts = counts(at + 1);
            compiler.peak.live.bytes = 30_000_000 * (at + 1);
            compiler.curve = curve(12.34, 400, compiler.peak.live.bytes);
            compiler.began = at as f64;
            compiler.lost = Lost {
                calls: 0,
                blocks: at * 100,
                stacks: at,
            };
            compiler
        })
        .collect();
    compilers.insert(0, shell);
    Profile {
        unseen: vec![
            unseen("/usr/bin/sudo", "it runs with other rights (setuid)"),
            unseen("/opt/old/tool", "it is a 32-bit program"),
        ],
        ..profile(&["make", "-j6"], 20.0, compilers)
    }
}

fn parts(seconds: f64, live_bytes: u64, free_bytes: u64) -> ResidentParts {
    ResidentParts {
        seconds,
        resident_bytes: live_bytes + live_bytes / 8 + free_bytes + 3 * MIB,
        live_bytes,
        rounding_bytes: Some(live_bytes / 8),
        free_in_pages_bytes: Some(free_bytes / 4),
        free_pages_bytes: Some(free_bytes - free_bytes / 4),
        other_bytes: 3 * MIB,
    }
}

/// Memory that the program did not ask for: rounding and retention, next to little time in the allocator.
pub fn wasteful() -> Profile {
    let mut only = usual();
    let process = &mut only.processes[0];
    for bucket in &mut process.counts.sizes {
        if let Some(usable) = &mut bucket.usable {
            usable.usable_bytes = usable.requested_bytes * 3 / 2;
        }
    }
    for point in &mut process.curve {
        point.resident_bytes = Some(point.live.bytes * 2 + 40 * MIB);
    }
    process.resident_most = Some(parts(2.1, 50 * MIB, 4 * MIB));
    process.resident_last = Some(parts(12.2, 12 * MIB, 70 * MIB));
    process.time = Some(TimeShares {
        in_allocator: 20,
        in_kernel_for_allocator: Some(2),
        ..time()
    });
    process.counts.lifetimes.clear();
    process.live_at_end = Live {
        blocks: 9_000_000,
        bytes: 45_000_000,
    };
    only
}

/// Names that would do harm if they were not escaped.
pub fn hostile() -> Profile {
    let evil = "<script>alert(1)</script>\u{1b}[31m\n\"&'\u{202e}]]>`x`;\t";
    let long = "a_very_long_name_".repeat(60);
    let mut all = several();
    all.command = vec![evil.to_owned(), long.clone()];
    all.reheap = evil.to_owned();
    for process in &mut all.processes {
        process.program = format!("/tmp/{evil}").into();
        process.allocator = Some(evil.to_owned());
        for thread in &mut process.threads {
            thread.name = Some(evil.to_owned());
        }
        for (at, frame) in process.sites.frames.iter_mut().enumerate() {
            frame.function = if at % 2 == 0 {
                evil.to_owned()
            } else {
                long.clone()
            };
            frame.file = Some(evil.to_owned());
            frame.module = Some(long.clone());
        }
        process.counts.calls.insert(evil.to_owned(), 7);
    }
    all.unseen = vec![unseen(&long, evil), unseen(evil, &long)];
    all
}

/// An hour of a large server: more of everything than a page can show.
pub fn hour() -> Profile {
    let mut server = json(1);
    server.curve = curve(3600.0, 36_000, 52_500_000);
    server.threads = (0..400)
        .map(|at| {
            thread(
                at,
                Some("a thread with a name"),
                1_000_000 - u64::from(at),
                5,
            )
        })
        .collect();
    let function = |at: u32| {
        format!(
            "server::module_{at}::{}",
            "handle<alloc::string::String>::".repeat(12)
        )
    };
    server.sites.frames = (0..5_000)
        .map(|at| frame(&function(at), "src/module.rs", at))
        .collect();
    server.sites.stacks = (0..30_000u32)
        .map(|at| Site {
            // The innermost functions differ; each of many outermost ones is just wide enough to be drawn.
            frames: (0..40)
                .map(|depth| match depth {
                    0..5 => at.wrapping_mul(7919 + depth * 31) % 5_000,
                    _ => at % 1_500,
                })
                .collect(),
            samples: 3,
            allocated_blocks: f64::from(at % 977),
            allocated_bytes: f64::from(at % 977) * 1_000.0,
            allocated_bytes_error: 500.0,
            live_blocks: 1.0,
            live_bytes: 1_000.0,
        })
        .collect();
    let mut all = vec![server];
    all.extend((2..600).map(|pid| process(pid, "/usr/bin/worker", 3600.0)));
    profile(&["server"], 3600.0, all)
}
