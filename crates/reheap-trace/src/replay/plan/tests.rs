//! Plans where there is little room.

use super::super::Touch;
use super::super::room::BYTES_PER_BLOCK;
use super::*;
use crate::writer::Writer;
use crate::{Function, Process, RawEvent};
use std::fs;

const BLOCKS: u64 = 10_000;
const SIZE: u64 = 1000;

/// The plan of a trace of two processes that each have so many blocks in use at its end.
fn planned(options: &Options, room: Room) -> Result<(), ReplayError> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    let mut streams = Vec::new();
    for pid in 1..=2 {
        let process = Process {
            pid,
            ..Process::default()
        };
        streams.push(writer.begin_process(&process).unwrap());
    }
    for block in 1..=BLOCKS {
        let call = RawEvent {
            nanoseconds: block * 1000,
            block,
            size: SIZE,
            alignment: 0,
            function: Function::Malloc as u32,
        };
        for stream in &streams {
            writer.push(*stream, 0, &[call]);
        }
    }
    for stream in &streams {
        writer.advance(*stream, u64::MAX).unwrap();
    }
    writer.flush().unwrap();
    for stream in streams {
        writer.end_process(stream, 0).unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace");
    fs::write(&trace, writer.finish().unwrap().0).unwrap();
    let plan = File::create(directory.path().join("plan")).unwrap();
    prepare_in(&trace, options, plan, room).map(drop)
}

const MUCH: Room = Room {
    memory: u64::MAX,
    disk: u64::MAX,
};

#[test]
fn more_blocks_than_there_is_memory_for_are_refused_when_they_are_read() {
    let all = 2 * (2 * BLOCKS * BYTES_PER_BLOCK);
    let options = Options {
        touch: Touch::None,
        ..Options::default()
    };
    let with = |memory| Room { memory, ..MUCH };
    planned(&options, with(all)).unwrap();
    let error = planned(&options, with(all - 1)).unwrap_err();
    assert!(
        matches!(error, ReplayError::TooManyBlocks { blocks, .. } if blocks == 2 * BLOCKS),
        "{error}"
    );
}

#[test]
fn blocks_that_would_be_written_to_must_have_memory() {
    let memory = BLOCKS * SIZE - 1;
    for (touch, is_refused) in [
        (Touch::None, false),
        (Touch::Ends, false),
        (Touch::Pages, true),
        (Touch::All, true),
    ] {
        let options = Options {
            touch,
            ..Options::default()
        };
        let refused = matches!(
            planned(&options, Room { memory, ..MUCH }),
            Err(ReplayError::LittleMemory { needed, .. }) if needed == BLOCKS * SIZE
        );
        assert_eq!(refused, is_refused, "{touch:?}");
    }
}

#[test]
fn a_plan_that_the_disk_has_no_room_for_is_not_begun() {
    for (speed, needed) in [(Speed::Max, BLOCKS * 16), (Speed::Recorded, BLOCKS * 32)] {
        let options = Options {
            speed,
            ..Options::default()
        };
        let disk = needed - 1;
        let error = planned(&options, Room { disk, ..MUCH }).unwrap_err();
        assert!(
            matches!(error, ReplayError::LongPlan { needed: told, .. } if told == needed),
            "{error}"
        );
    }
}
