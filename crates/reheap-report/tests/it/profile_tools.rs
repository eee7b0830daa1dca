//! What other tools read: decoded again, as they would.

use crate::profiles;
use flate2::read::GzDecoder;
use proptest::prelude::*;
use prost::Message;
use reheap_profile::profile::{Frame, Profile};
use reheap_report::profile::{By, dhat, firefox, folded, pprof};
use serde_json::Value;
use std::io::Read as _;

/// The messages of `profile.proto`, as far as reheap writes them.
mod proto {
    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Profile {
        #[prost(message, repeated, tag = "1")]
        pub(crate) sample_type: Vec<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub(crate) sample: Vec<Sample>,
        #[prost(message, repeated, tag = "3")]
        pub(crate) mapping: Vec<Mapping>,
        #[prost(message, repeated, tag = "4")]
        pub(crate) location: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        pub(crate) function: Vec<Function>,
        #[prost(string, repeated, tag = "6")]
        pub(crate) string_table: Vec<String>,
        #[prost(int64, tag = "10")]
        pub(crate) duration_nanos: i64,
        #[prost(message, optional, tag = "11")]
        pub(crate) period_type: Option<ValueType>,
        #[prost(int64, tag = "12")]
        pub(crate) period: i64,
        #[prost(int64, repeated, tag = "13")]
        pub(crate) comment: Vec<i64>,
        #[prost(int64, tag = "14")]
        pub(crate) default_sample_type: i64,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(crate) struct ValueType {
        #[prost(int64, tag = "1")]
        pub(crate) r#type: i64,
        #[prost(int64, tag = "2")]
        pub(crate) unit: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Sample {
        #[prost(uint64, repeated, tag = "1")]
        pub(crate) location_id: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        pub(crate) value: Vec<i64>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(crate) struct Mapping {
        #[prost(uint64, tag = "1")]
        pub(crate) id: u64,
        #[prost(int64, tag = "5")]
        pub(crate) filename: i64,
        #[prost(bool, tag = "7")]
        pub(crate) has_functions: bool,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Location {
        #[prost(uint64, tag = "1")]
        pub(crate) id: u64,
        #[prost(uint64, tag = "2")]
        pub(crate) mapping_id: u64,
        #[prost(message, repeated, tag = "4")]
        pub(crate) line: Vec<Line>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(crate) struct Line {
        #[prost(uint64, tag = "1")]
        pub(crate) function_id: u64,
        #[prost(int64, tag = "2")]
        pub(crate) line: i64,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub(crate) struct Function {
        #[prost(uint64, tag = "1")]
        pub(crate) id: u64,
        #[prost(int64, tag = "2")]
        pub(crate) name: i64,
        #[prost(int64, tag = "4")]
        pub(crate) filename: i64,
    }
}

fn unpacked(profile: &Profile) -> proto::Profile {
    let mut bytes = Vec::new();
    GzDecoder::new(pprof(profile).as_slice())
        .read_to_end(&mut bytes)
        .unwrap();
    proto::Profile::decode(bytes.as_slice()).unwrap()
}

impl proto::Profile {
    fn string(&self, place: i64) -> &str {
        &self.string_table[place as usize]
    }

    fn frame(&self, location: u64) -> Frame {
        let location = &self.location[location as usize - 1];
        let line = location.line[0];
        let function = self.function[line.function_id as usize - 1];
        assert_eq!(function.id, line.function_id);
        let mapping = location
            .mapping_id
            .checked_sub(1)
            .map(|at| self.mapping[at as usize]);
        let file = Some(self.string(function.filename).to_owned());
        Frame {
            function: self.string(function.name).to_owned(),
            module: mapping.map(|mapping| self.string(mapping.filename).to_owned()),
            file: file.filter(|name| !name.is_empty()),
            line: (line.line > 0).then_some(line.line as u32),
            inlined: false,
        }
    }
}

#[test]
fn pprof_gets_every_stack_with_its_four_figures() {
    let profile = profiles::usual();
    let file = unpacked(&profile);
    let types = file.sample_type.iter();
    let types: Vec<String> = types
        .map(|kind| format!("{}/{}", file.string(kind.r#type), file.string(kind.unit)))
        .collect();
    let expected = [
        "alloc_objects/count",
        "alloc_space/bytes",
        "inuse_objects/count",
        "inuse_space/bytes",
    ];
    assert_eq!(types, expected);
    assert_eq!(file.string_table[0], "");
    assert_eq!(file.string(file.default_sample_type), "alloc_space");
    assert_eq!(file.string(file.period_type.unwrap().unit), "bytes");
    assert_eq!(
        (file.period, file.duration_nanos),
        (524_288, 12_340_000_000)
    );
    assert_eq!(
        file.string(file.comment[0]),
        "./json --rounds 40 'large file.json'"
    );
    assert!(
        file.mapping
            .iter()
            .all(|mapping| mapping.has_functions && mapping.id > 0)
    );
    let sites = &profile.processes[0].sites;
    assert_eq!(file.sample.len(), sites.stacks.len());
    for (sample, site) in file.sample.iter().zip(&sites.stacks) {
        let values = [
            site.allocated_blocks,
            site.allocated_bytes,
            site.live_blocks,
            site.live_bytes,
        ];
        assert_eq!(sample.value, values.map(|value| value as i64));
        let frames: Vec<Frame> = sample
            .location_id
            .iter()
            .map(|location| file.frame(*location))
            .collect();
        let expected = site
            .frames
            .iter()
            .map(|index| sites.frames[*index as usize].clone());
        let expected: Vec<Frame> = expected
            .map(|frame| Frame {
                inlined: false,
                ..frame
            })
            .collect();
        assert_eq!(frames, expected);
    }
}

#[test]
fn folded_stacks_begin_with_the_outermost_function() {
    let bytes = folded(&profiles::usual(), By::Bytes);
    let first = "json::main;json::parse::Parser<'_>::value;json::parse::Parser<'_>::object;\
                 json::parse::Parser<'_>::value;alloc::vec::Vec<T,A>::push 646971392";
    assert_eq!(bytes.lines().next(), Some(first));
    let blocks = folded(&profiles::usual(), By::Blocks);
    assert!(
        blocks.lines().next().unwrap().ends_with(" 4512345"),
        "{blocks}"
    );
    for line in folded(&profiles::hostile(), By::Bytes).lines() {
        let (names, figure) = line.rsplit_once(' ').unwrap();
        assert!(figure.parse::<u64>().is_ok(), "{line}");
        assert!(names.split(';').count() <= 5, "{line}");
    }
}

#[test]
fn dhat_gets_what_its_viewer_asks_for() {
    let file: Value = serde_json::from_str(&dhat(&profiles::usual())).unwrap();
    assert_eq!(file["dhatFileVersion"], 2);
    assert_eq!(
        (&file["mode"], &file["bklt"], &file["bkacc"]),
        (&"heap".into(), &false.into(), &false.into())
    );
    for key in ["verb", "tu", "Mtu", "cmd"] {
        assert!(file[key].is_string(), "{key}");
    }
    assert_eq!(
        (&file["pid"], &file["te"]),
        (&4711.into(), &12_340_000.into())
    );
    let frames = file["ftbl"].as_array().unwrap();
    assert_eq!(frames[0], "[root]");
    let points = file["pps"].as_array().unwrap();
    assert_eq!(points.len(), 6);
    assert_eq!(points[1]["tb"], 612u64 * 524_288);
    assert_eq!(points[1]["tbk"], 3_212_345);
    let names = points[1]["fs"].as_array().unwrap().iter();
    let names: Vec<&Value> = names
        .map(|frame| &frames[frame.as_u64().unwrap() as usize])
        .collect();
    let expected = [
        "json::text::unescape (src/text.rs:44)",
        "json::parse::Parser<'_>::value (src/parse.rs:120)",
        "json::main (src/main.rs:17)",
    ];
    assert_eq!(names, expected);
}

#[test]
fn the_firefox_profiler_gets_the_curve_and_the_allocations() {
    let profile = profiles::usual();
    let file: Value = serde_json::from_str(&firefox(&profile)).unwrap();
    let counter = &file["counters"][0];
    assert_eq!(
        (&counter["category"], &counter["name"]),
        (&"Memory".into(), &"malloc".into())
    );
    let changes = counter["samples"]["count"].as_array().unwrap();
    assert_eq!(changes.len(), profile.processes[0].curve.len());
    let end: f64 = changes.iter().map(|change| change.as_f64().unwrap()).sum();
    assert_eq!(
        end as u64,
        profile.processes[0].curve.last().unwrap().live.bytes
    );
    let allocations = &file["threads"][0]["nativeAllocations"];
    let weights = allocations["weight"].as_array().unwrap().iter();
    let weights: Vec<i64> = weights.map(|weight| weight.as_i64().unwrap()).collect();
    let sites = &profile.processes[0].sites.stacks;
    let sum = |figure: fn(&reheap_profile::profile::Site) -> f64| {
        sites.iter().map(figure).sum::<f64>() as i64
    };
    let allocated: i64 = weights.iter().filter(|weight| **weight > 0).sum();
    assert_eq!(allocated, sum(|site| site.allocated_bytes));
    assert_eq!(weights.iter().sum::<i64>(), sum(|site| site.live_bytes));
    assert!(allocations["memoryAddress"].is_array());
}

#[test]
fn every_profile_is_readable_to_every_tool() {
    for (name, profile) in profiles::all() {
        let _: Value = serde_json::from_str(&dhat(&profile)).unwrap();
        let _: Value = serde_json::from_str(&firefox(&profile)).unwrap();
        let stacks = unpacked(&profile).sample.len();
        assert_eq!(
            folded(&profile, By::Blocks).lines().count(),
            stacks,
            "{name}"
        );
        assert_eq!(pprof(&profile), pprof(&profile.clone()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_name_and_figure_is_readable_to_every_tool(profile in profiles::shaken::a_profile()) {
        let _: Value = serde_json::from_str(&dhat(&profile)).unwrap();
        let _: Value = serde_json::from_str(&firefox(&profile)).unwrap();
        for name in unpacked(&profile).string_table {
            prop_assert!(!name.chars().any(char::is_control), "{name:?}");
        }
        for line in folded(&profile, By::Bytes).lines() {
            prop_assert!(line.rsplit_once(' ').is_some_and(|(_, figure)| figure.parse::<u64>().is_ok()), "{line:?}");
        }
    }
}
