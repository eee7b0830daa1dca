use super::super::modules::Modules;
use super::*;
use proptest::prelude::*;
use reheap_proc::maps;

/// xorshift64*: the simulation is the same in every run.
struct Random(u64);

impl Random {
    /// Above 0, up to 1.
    fn fraction(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11;
        (bits + 1) as f64 / (1_u64 << 53) as f64
    }

    fn distance(&mut self, every: u64) -> f64 {
        -self.fraction().ln() * every as f64
    }
}

const EVERY: u64 = 4096;

/// Samples blocks as a hook does, and adds up what the samples stand for. `every_after` gives the mean distance after a
/// block that was sampled or not.
fn simulated(
    sizes: &[u64],
    blocks: usize,
    random: &mut Random,
    mut every_after: impl FnMut(bool) -> u64,
) -> Weight {
    let mut sum = Weight::default();
    let mut every = EVERY;
    let mut left = random.distance(every);
    for block in 0..blocks {
        let size = sizes[block % sizes.len()];
        left -= size as f64;
        let is_sampled = left <= 0.0;
        if is_sampled {
            sum += Weight::of_sample(size, every);
        }
        let next = every_after(is_sampled);
        if is_sampled || next != every {
            every = next;
            left = random.distance(every);
        }
    }
    sum
}

/// Doubles the distance after each fourth sample, up to eightfold, and halves it after 40 blocks without four.
fn limited() -> impl FnMut(bool) -> u64 {
    let (mut every, mut samples, mut blocks) = (EVERY, 0, 0);
    move |is_sampled| {
        samples += u32::from(is_sampled);
        blocks += 1;
        if samples == 4 {
            (every, samples, blocks) = ((every * 2).min(8 * EVERY), 0, 0);
        } else if blocks == 40 {
            (every, samples, blocks) = ((every / 2).max(EVERY), 0, 0);
        }
        every
    }
}

#[test]
fn samples_stand_for_as_many_blocks_and_bytes_as_there_were() {
    assert_unbiased(|| |_| EVERY);
}

#[test]
fn samples_at_longer_distances_stand_for_as_many_more() {
    assert_unbiased(limited);
}

fn assert_unbiased<F: FnMut(bool) -> u64>(every_after: impl Fn() -> F) {
    const BLOCKS: usize = 3_000;
    let sizes = [16, 100, 1000, 4096, 10_000, 200_000];
    for some in [&sizes[..1], &sizes[1..3], &sizes] {
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        let runs: Vec<Weight> = (0..1000)
            .map(|_| simulated(some, BLOCKS, &mut random, every_after()))
            .collect();
        let bytes: u64 = (0..BLOCKS).map(|block| some[block % some.len()]).sum();
        for (values, truth) in [
            (
                runs.iter().map(|sum| sum.blocks).collect::<Vec<_>>(),
                BLOCKS as f64,
            ),
            (runs.iter().map(|sum| sum.bytes).collect(), bytes as f64),
        ] {
            let count = values.len() as f64;
            let mean = values.iter().sum::<f64>() / count;
            let variance = values
                .iter()
                .map(|value| (value - mean).powi(2))
                .sum::<f64>()
                / (count - 1.0);
            let error = (variance / count).sqrt();
            assert!(
                (mean - truth).abs() < 3.0 * error,
                "{some:?}: {mean} ± {error}, not {truth}"
            );
            assert!(
                error < 0.03 * truth,
                "the simulation is too small to tell: {error} of {truth}"
            );
        }
    }
}

#[test]
fn a_block_far_above_the_distance_stands_for_itself() {
    let weight = Weight::of_sample(1 << 30, 512 << 10);
    assert_eq!((weight.blocks, weight.bytes), (1.0, (1_u64 << 30) as f64));
    assert!(Weight::of_sample(0, 512 << 10).blocks.is_finite());
}

fn addresses() -> Vec<CodeAddress> {
    let mut modules = Modules::new();
    maps::parse(b"1000-2000 r-xp 0 00:00 0 \n3000-4000 r-xp 0 00:00 0 [vsyscall]\n")
        .iter()
        .flat_map(|mapping| {
            let module = modules.of(mapping, None);
            (0..4).map(move |offset| CodeAddress {
                module,
                offset,
                is_return_address: true,
            })
        })
        .collect()
}

/// Two addresses have the same function, and one has an inlined one.
fn frames(address: CodeAddress) -> Vec<Frame> {
    let frame = |name: &str, inlined| Frame {
        function: format!("{name} of {:?}", address.module),
        inlined,
        ..Frame::default()
    };
    match address.offset {
        0 | 1 => vec![frame("same", false)],
        2 => vec![frame("inlined", true), frame("around", false)],
        _ => vec![frame("other", false)],
    }
}

#[test]
fn stacks_with_the_same_names_are_one_site_and_the_largest_is_first() {
    let addresses = addresses();
    let weight = |blocks: f64, bytes: f64| Weight { blocks, bytes };
    let mut table = SiteTable::new();
    let first = table.allocated(&[addresses[0], addresses[2]], weight(1.0, 10.0));
    table.allocated(&[addresses[3]], weight(9.0, 15.0));
    table.allocated(&[addresses[1], addresses[2]], weight(2.0, 20.0));
    assert_eq!(
        table.allocated(&[addresses[0], addresses[2]], weight(4.0, 40.0)),
        first
    );
    table.is_live(first, weight(4.0, 40.0));
    let sites = table.sites(frames);
    assert_eq!(sites.stacks.len(), 2);
    let largest = &sites.stacks[0];
    assert_eq!(
        (
            largest.samples,
            largest.allocated_blocks,
            largest.allocated_bytes
        ),
        (3, 7.0, 70.0)
    );
    assert_eq!((largest.live_blocks, largest.live_bytes), (4.0, 40.0));
    let names: Vec<&str> = largest
        .frames
        .iter()
        .map(|frame| {
            sites.frames[*frame as usize]
                .function
                .split(' ')
                .next()
                .expect("a word")
        })
        .collect();
    assert_eq!(names, ["same", "inlined", "around"]);
    assert_eq!(sites.frames.len(), 4);
}

proptest! {
    #[test]
    fn nothing_is_lost_and_frames_are_there_once(
        samples in prop::collection::vec((prop::collection::vec(0..8_usize, 0..5), 1..1000_u64, any::<bool>()), 0..60),
    ) {
        let addresses = addresses();
        let mut table = SiteTable::new();
        let mut live = 0.0;
        for (stack, size, is_live) in &samples {
            let stack: Vec<CodeAddress> = stack.iter().map(|index| addresses[*index]).collect();
            // Whole numbers, so that sums are exact.
            let weight = Weight { blocks: 1.0, bytes: *size as f64 };
            let site = table.allocated(&stack, weight);
            if *is_live {
                table.is_live(site, weight);
                live += weight.bytes;
            }
        }
        let sites = table.sites(frames);
        let sum = |part: fn(&Site) -> f64| sites.stacks.iter().map(part).sum::<f64>();
        prop_assert_eq!(sum(|site| site.allocated_bytes), samples.iter().map(|sample| sample.1 as f64).sum::<f64>());
        prop_assert_eq!(sum(|site| site.live_bytes), live);
        prop_assert_eq!(sum(|site| site.samples as f64), samples.len() as f64);
        prop_assert!(sites.stacks.is_sorted_by(|a, b| a.allocated_bytes >= b.allocated_bytes));
        let mut once = sites.frames.clone();
        once.sort();
        once.dedup();
        prop_assert_eq!(once.len(), sites.frames.len());
        let mut stacks: Vec<_> = sites.stacks.iter().map(|site| &site.frames).collect();
        stacks.sort();
        stacks.dedup();
        prop_assert_eq!(stacks.len(), sites.stacks.len());
    }
}
